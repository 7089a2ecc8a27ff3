//! Tasks with known names: the conversion of published data to questions.
//!
//! Prompts and metrics are those of lm-evaluation-harness's tasks of the same names (version 0.4.9 and later).

use crate::item::{Ask, Check, Item, Prompt};
use serde_json::Value;

/// A task.
#[derive(Clone, Copy, Debug)]
pub struct Task {
    name: &'static str,
    metrics: &'static [&'static str],
    /// Default number of examples before the question.
    shots: usize,
    read: fn(&Value) -> Result<Ask, String>,
    /// Text before all examples.
    description: fn(&Value) -> String,
}

const NORMALISED: &[&str] = &["acc", "acc_norm"];

static TASKS: [Task; 9] = [
    Task { name: "hellaswag", metrics: NORMALISED, shots: 0, read: hellaswag, description: none },
    Task { name: "arc_easy", metrics: NORMALISED, shots: 0, read: arc, description: none },
    Task { name: "arc_challenge", metrics: NORMALISED, shots: 0, read: arc, description: none },
    Task { name: "piqa", metrics: NORMALISED, shots: 0, read: piqa, description: none },
    Task { name: "winogrande", metrics: &["acc"], shots: 0, read: winogrande, description: none },
    Task { name: "boolq", metrics: &["acc"], shots: 0, read: boolq, description: none },
    Task { name: "openbookqa", metrics: NORMALISED, shots: 0, read: openbookqa, description: none },
    Task { name: "mmlu", metrics: &["acc"], shots: 0, read: mmlu, description: subject },
    Task { name: "gsm8k", metrics: &["strict", "flexible"], shots: 5, read: gsm8k, description: none },
];

impl Task {
    /// Returns every task.
    pub fn all() -> impl ExactSizeIterator<Item = Task> {
        TASKS.iter().copied()
    }

    /// Returns the task of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Task> {
        Task::all().find(|task| task.name == name)
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the metrics; the first is the one that verdicts use.
    #[must_use]
    pub fn metrics(&self) -> &'static [&'static str] {
        self.metrics
    }

    /// Returns the default number of examples before a question.
    #[must_use]
    pub fn shots(&self) -> usize {
        self.shots
    }

    /// Converts an item to a question, with examples before it.
    ///
    /// # Errors
    /// Description of what the item lacks.
    pub fn item(&self, number: usize, value: &Value, examples: &str) -> Result<Item, String> {
        let mut ask = (self.read)(value)?;
        let before = format!("{}{examples}", (self.description)(value));
        match &mut ask {
            Ask::Choices { pairs, .. } => {
                pairs.iter_mut().for_each(|(context, _)| context.insert_str(0, &before))
            }
            Ask::Answer { prompt: Prompt::Text(text), .. } => text.insert_str(0, &before),
            _ => {}
        }
        let id = ["id", "ind", "idx"].iter().find_map(|key| match value.get(key) {
            Some(Value::String(id)) => Some(id.clone()),
            Some(Value::Number(id)) => Some(id.to_string()),
            _ => None,
        });
        Ok(Item { id: id.unwrap_or_else(|| number.to_string()), ask })
    }

    /// Converts an item to an example: the question with its answer.
    ///
    /// # Errors
    /// Description of what the item lacks.
    pub fn example(&self, value: &Value) -> Result<String, String> {
        match (self.read)(value)? {
            Ask::Choices { pairs, gold, .. } => Ok(format!("{}{}\n\n", pairs[gold].0, pairs[gold].1)),
            Ask::Answer { prompt: Prompt::Text(text), .. } => {
                Ok(format!("{text} {}\n\n", string(value, "answer")?))
            }
            _ => Err("no example can be made of it".to_owned()),
        }
    }
}

fn none(_: &Value) -> String {
    String::new()
}

fn subject(value: &Value) -> String {
    let subject = value.get("subject").and_then(Value::as_str).unwrap_or_default().replace('_', " ");
    match subject.is_empty() {
        true => String::new(),
        false => format!("The following are multiple choice questions (with answers) about {subject}.\n\n"),
    }
}

fn string<'v>(value: &'v Value, key: &str) -> Result<&'v str, String> {
    value.get(key).and_then(Value::as_str).ok_or_else(|| format!("{key}: missing, or no text"))
}

fn strings(value: &Value, key: &str) -> Result<Vec<String>, String> {
    let wrong = || format!("{key}: missing, or no list of texts");
    let all = value.get(key).and_then(Value::as_array).ok_or_else(wrong)?;
    let text = |value: &Value| value.as_str().map(str::to_owned).ok_or_else(wrong);
    all.iter().map(text).collect()
}

/// Reads a number, which may be in quotes.
fn number(value: &Value, key: &str) -> Result<usize, String> {
    let found = value.get(key).and_then(|v| match v {
        Value::String(text) => text.trim().parse().ok(),
        Value::Bool(truth) => Some(u64::from(*truth)),
        v => v.as_u64(),
    });
    let found = found.and_then(|n: u64| usize::try_from(n).ok());
    found.ok_or_else(|| format!("{key}: missing, or no number"))
}

/// Makes a question from one context and its choices, each after a blank as in lm-evaluation-harness.
fn choices(context: &str, choices: &[String], gold: usize) -> Result<Ask, String> {
    let blank: Vec<String> = choices.iter().map(|choice| format!(" {choice}")).collect();
    let Ask::Choices { pairs, characters, gold } = continuations(context, &blank, gold)? else {
        return Err("no choices".to_owned());
    };
    // The blank does not count as a character of the choice.
    Ok(Ask::Choices { pairs, characters: characters.iter().map(|n| n - 1).collect(), gold })
}

/// Makes a question from one context and its continuations, unchanged.
pub(crate) fn continuations(context: &str, all: &[String], gold: usize) -> Result<Ask, String> {
    if gold >= all.len() || all.len() < 2 {
        return Err(format!("answer {gold} of {} choices", all.len()));
    }
    Ok(Ask::Choices {
        pairs: all.iter().map(|text| (context.to_owned(), text.clone())).collect(),
        characters: all.iter().map(|text| text.chars().count()).collect(),
        gold,
    })
}

/// Removes markup that WikiHow's pages have left in the text.
fn cleaned(text: &str) -> String {
    let text = text.trim().replace(" [title]", ". ");
    let mut kept = String::with_capacity(text.len());
    let mut rest = &text[..];
    while let Some(open) = rest.find('[') {
        // As the pattern `\[.*?\]`, which stays within a line.
        let line = rest[open..].find('\n').map_or(rest.len(), |end| open + end);
        let Some(close) = rest[open..line].find(']') else {
            kept.push_str(&rest[..open + 1]);
            rest = &rest[open + 1..];
            continue;
        };
        kept.push_str(&rest[..open]);
        rest = &rest[open + close + 1..];
    }
    kept.push_str(rest);
    kept.replace("  ", " ")
}

/// Makes the first letter upper case and the others lower case.
fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(letters.flat_map(char::to_lowercase)).collect()
}

fn hellaswag(value: &Value) -> Result<Ask, String> {
    let context = format!(
        "{}: {} {}",
        string(value, "activity_label")?,
        string(value, "ctx_a")?,
        capitalised(string(value, "ctx_b")?)
    );
    let endings: Vec<String> = strings(value, "endings")?.iter().map(|ending| cleaned(ending)).collect();
    choices(&cleaned(&context), &endings, number(value, "label")?)
}

/// Makes a question from labelled choices.
fn labelled(value: &Value, context: &str) -> Result<Ask, String> {
    let all = value.get("choices").ok_or("choices: missing")?;
    let (texts, labels) = (strings(all, "text")?, strings(all, "label")?);
    let answer = string(value, "answerKey")?.trim_start();
    let gold = labels.iter().position(|label| label == answer);
    choices(context, &texts, gold.ok_or_else(|| format!("answerKey: `{answer}` is none of the labels"))?)
}

fn arc(value: &Value) -> Result<Ask, String> {
    labelled(value, &format!("Question: {}\nAnswer:", string(value, "question")?))
}

fn openbookqa(value: &Value) -> Result<Ask, String> {
    labelled(value, string(value, "question_stem")?)
}

fn piqa(value: &Value) -> Result<Ask, String> {
    let both = [string(value, "sol1")?.to_owned(), string(value, "sol2")?.to_owned()];
    choices(&format!("Question: {}\nAnswer:", string(value, "goal")?), &both, number(value, "label")?)
}

/// Makes a question from the two names: each is filled in as a context, and the rest of the sentence is the
/// continuation.
fn winogrande(value: &Value) -> Result<Ask, String> {
    let sentence = string(value, "sentence")?;
    let (before, behind) = sentence.split_once('_').ok_or("sentence: no `_` in it")?;
    let gold = number(value, "answer")?.wrapping_sub(1);
    let contexts: Vec<String> = ["option1", "option2"]
        .iter()
        .map(|key| Ok(format!("{before}{}", string(value, key)?)))
        .collect::<Result<_, String>>()?;
    if gold > 1 {
        return Err("answer: want 1 or 2".to_owned());
    }
    Ok(Ask::Choices {
        characters: contexts.iter().map(|context| context.chars().count()).collect(),
        pairs: contexts.into_iter().map(|context| (context, format!(" {}", behind.trim()))).collect(),
        gold,
    })
}

fn boolq(value: &Value) -> Result<Ask, String> {
    let (passage, question) = (string(value, "passage")?, string(value, "question")?);
    // SuperGLUE's format has a label, the original one a boolean.
    let gold = number(value, "label").or_else(|_| number(value, "answer"))?;
    choices(&format!("{passage}\nQuestion: {question}?\nAnswer:"), &["no".to_owned(), "yes".to_owned()], gold)
}

fn mmlu(value: &Value) -> Result<Ask, String> {
    let all = strings(value, "choices")?;
    let [a, b, c, d] = &all[..] else { return Err(format!("choices: {} instead of 4", all.len())) };
    let question = string(value, "question")?.trim();
    let letters = ["A", "B", "C", "D"].map(str::to_owned);
    let letter =
        value.get("answer").and_then(Value::as_str).and_then(|l| letters.iter().position(|x| x == l));
    let gold = letter.map_or_else(|| number(value, "answer"), Ok)?;
    choices(&format!("{question}\nA. {a}\nB. {b}\nC. {c}\nD. {d}\nAnswer:"), &letters, gold)
}

fn gsm8k(value: &Value) -> Result<Ask, String> {
    let answer = string(value, "answer")?;
    Ok(Ask::Answer {
        prompt: Prompt::Text(format!("Question: {}\nAnswer:", string(value, "question")?)),
        stop: ["Question:", "</s>", "<|im_end|>"].map(str::to_owned).to_vec(),
        max_tokens: 256,
        check: Check::Number(answer.to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pairs(task: &str, value: &Value) -> (Vec<(String, String)>, usize) {
        match Task::from_name(task).unwrap().item(0, value, "").unwrap().ask {
            Ask::Choices { pairs, gold, .. } => (pairs, gold),
            other => panic!("{other:?}"),
        }
    }

    /// Compares with the output of lm-evaluation-harness's functions.
    #[test]
    fn prompts_are_the_harnesss() {
        let value = json!({"activity_label": "Roof", "ctx_a": "A man [substeps] sits.", "ctx_b": "he  IS [title] up",
            "endings": ["[header] goes [step] on.", "b"], "label": "1"});
        let (pairs_, gold) = pairs("hellaswag", &value);
        assert_eq!((&pairs_[0].0[..], gold), ("Roof: A man sits. He is. up", 1));
        assert_eq!(pairs_[0].1, "  goes on.");
        let value = json!({"sentence": "Sarah beat Maria, so _ won. ", "option1": "Sarah", "option2": "Maria", "answer": "2"});
        let (pairs_, gold) = pairs("winogrande", &value);
        assert_eq!(pairs_[1], ("Sarah beat Maria, so Maria".to_owned(), " won.".to_owned()));
        assert_eq!(gold, 1);
        let value =
            json!({"question": "Q?", "choices": {"text": ["x", "y"], "label": ["A", "B"]}, "answerKey": "B"});
        assert_eq!(pairs("arc_easy", &value).0[1], ("Question: Q?\nAnswer:".to_owned(), " y".to_owned()));
        let value = json!({"question": " Q? ", "choices": ["w", "x", "y", "z"], "answer": 3, "subject": "high_school_x"});
        let (pairs_, gold) = pairs("mmlu", &value);
        let wanted = "The following are multiple choice questions (with answers) about high school x.\n\n\
                      Q?\nA. w\nB. x\nC. y\nD. z\nAnswer:";
        assert_eq!((pairs_[3].0.as_str(), pairs_[3].1.as_str(), gold), (wanted, " D", 3));
        let shot = json!({"question": "1+1", "answer": "It is 2.\n#### 2"});
        let example = Task::from_name("gsm8k").unwrap().example(&shot).unwrap();
        assert_eq!(example, "Question: 1+1\nAnswer: It is 2.\n#### 2\n\n");
    }

    #[test]
    fn what_an_item_lacks_is_named() {
        for (task, value, words) in [
            ("piqa", json!({"goal": "g", "sol1": "a"}), "sol2: missing"),
            (
                "arc_easy",
                json!({"question": "q", "choices": {"text": ["a", "b"], "label": ["A", "B"]}, "answerKey": "E"}),
                "none of the labels",
            ),
            (
                "hellaswag",
                json!({"activity_label": "a", "ctx_a": "b", "ctx_b": "", "endings": ["x", "y"], "label": ""}),
                "label: missing",
            ),
            ("winogrande", json!({"sentence": "no blank"}), "no `_`"),
            ("mmlu", json!({"question": "q", "choices": ["a"], "answer": 0}), "1 instead of 4"),
        ] {
            let told = Task::from_name(task).unwrap().item(0, &value, "").unwrap_err();
            assert!(told.contains(words), "{task}: {told}");
        }
    }
}
