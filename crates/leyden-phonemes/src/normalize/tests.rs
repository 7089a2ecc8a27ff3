//! Cases of the normaliser: a text, and its words with letters in braces.

use super::{Kind, tokens};

fn said(text: &str) -> String {
    let words = tokens(text, 0).into_iter().filter_map(|token| match token.kind {
        Kind::Word(word) => Some(word),
        Kind::Letters(letters) => Some(format!("{{{letters}}}")),
        Kind::Mark(_) => None,
    });
    words.collect::<Vec<_>>().join(" ")
}

fn check(cases: &[(&str, &str)]) {
    let wrong: Vec<String> = cases
        .iter()
        .filter(|(text, words)| said(text) != *words)
        .map(|(text, words)| format!("{text:?}: {:?}, not {words:?}", said(text)))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn numbers() {
    check(&[
        ("7 cats", "seven cats"),
        ("42", "forty two"),
        ("101 dogs", "one hundred one dogs"),
        ("1,234,567 stars", "one million two hundred thirty four thousand five hundred sixty seven stars"),
        ("3.14", "three point one four"),
        (".5", "zero point five"),
        ("0.05", "zero point zero five"),
        ("-5", "minus five"),
        ("−12.5 now", "minus twelve point five now"),
        ("+3", "plus three"),
        ("±2", "plus or minus two"),
        ("10000 people", "ten thousand people"),
        ("007", "zero zero seven"),
        ("10-20", "ten to twenty"),
        ("10–20 men", "ten to twenty men"),
        ("pp. 5-7", "pages five to seven"),
        ("1939–1945", "nineteen thirty nine to nineteen forty five"),
        ("1/2", "one half"),
        ("3/4 cup", "three quarters cup"),
        ("2/3", "two thirds"),
        ("1 1/2 cups", "one and a half cups"),
        ("5½", "five and a half"),
        ("¼ mile", "one quarter mile"),
        ("7/100", "seven over one hundred"),
        ("24/7", "twenty four seven"),
        ("1st", "first"),
        ("the 22nd of", "the twenty second of"),
        ("3rd", "third"),
        ("100th", "one hundredth"),
        ("21st-century art", "twenty first century art"),
        ("50%", "fifty percent"),
        ("3.5% more", "three point five percent more"),
        ("10-15%", "ten to fifteen percent"),
        ("5 %", "five percent"),
        ("1 000 000", "one zero zero zero zero zero zero"),
        ("No. 5", "number five"),
        ("No. I said", "No I said"),
        ("#1", "number one"),
        ("555-1234", "five five five one two three four"),
        ("(212) 555-0199", "two hundred twelve five five five zero one nine nine"),
        ("+1-800-555-0199", "plus one eight zero zero five five five zero one nine nine"),
    ]);
}

#[test]
fn years_and_dates() {
    check(&[
        ("in 1984", "in nineteen eighty four"),
        ("in 2026", "in twenty twenty six"),
        ("in 2005", "in two thousand five"),
        ("in 1900", "in nineteen hundred"),
        ("in 1905", "in nineteen oh five"),
        ("1500 soldiers", "one thousand five hundred soldiers"),
        ("2050 people", "two thousand fifty people"),
        ("the 1990s", "the nineteen nineties"),
        ("the '90s", "the nineties"),
        ("the 80s", "the eighties"),
        ("the 1800s", "the eighteen hundreds"),
        ("Nov. 28, 2026", "November twenty eighth twenty twenty six"),
        ("November 28, 2026", "November twenty eighth twenty twenty six"),
        ("28 November 2026", "twenty eighth of November twenty twenty six"),
        ("28th November", "twenty eighth of November"),
        ("2026-11-28", "November twenty eighth twenty twenty six"),
        ("11/28/2026", "November twenty eighth twenty twenty six"),
        ("28/11/2026", "November twenty eighth twenty twenty six"),
        ("28.11.2026", "November twenty eighth twenty twenty six"),
        ("2026/01/05", "January fifth twenty twenty six"),
        ("May 5", "May fifth"),
        ("May 2020", "May twenty twenty"),
        ("You may go", "You may go"),
        ("Sept. 1st", "September first"),
        ("Jan. 3", "January third"),
        ("on Mon. at", "on Monday at"),
        ("March on", "March on"),
        ("9/11", "nine eleven"),
        ("June 1944", "June nineteen forty four"),
        ("July 4th, 1776,", "July fourth seventeen seventy six"),
    ]);
}

#[test]
fn times() {
    check(&[
        ("7:45", "seven forty five"),
        ("7:05", "seven oh five"),
        ("7:00", "seven o'clock"),
        ("14:05", "fourteen oh five"),
        ("14:00", "fourteen hundred"),
        ("5pm", "five {PM}"),
        ("5 pm", "five {PM}"),
        ("5 p.m. today", "five {PM} today"),
        ("11:30 a.m.", "eleven thirty {AM}"),
        ("8:00 AM", "eight {AM}"),
        ("9:15pm", "nine fifteen {PM}"),
        ("12:30:45", "twelve thirty forty five"),
        ("9:00-17:30", "nine o'clock to seventeen thirty"),
        ("16:9", "sixteen to nine"),
        ("3:1", "three to one"),
        ("I am 5", "I am five"),
    ]);
}

#[test]
fn units() {
    check(&[
        ("5 kg", "five kilograms"),
        ("5kg", "five kilograms"),
        ("1 kg", "one kilogram"),
        ("10 lbs. of", "ten pounds of"),
        ("60 km/h", "sixty kilometers per hour"),
        ("60km/h", "sixty kilometers per hour"),
        ("21°C", "twenty one degrees Celsius"),
        ("-40 °F", "minus forty degrees Fahrenheit"),
        ("90°", "ninety degrees"),
        ("16 MB", "sixteen megabytes"),
        ("1.5GB", "one point five gigabytes"),
        ("3 GHz", "three gigahertz"),
        ("9 m²", "nine square meters"),
        ("2 m/s", "two meters per second"),
        ("100m", "one hundred meters"),
        ("6 ft", "six feet"),
        ("30 mph", "thirty miles per hour"),
        ("20 ms", "twenty milliseconds"),
        ("5-10 km", "five to ten kilometers"),
        ("12 oz.", "twelve ounces"),
        ("220V", "two hundred twenty volts"),
        ("5M users", "five million users"),
        ("500 kWh", "five hundred kilowatt hours"),
    ]);
}

#[test]
fn money() {
    check(&[
        ("$3.50", "three dollars and fifty cents"),
        ("$1", "one dollar"),
        ("$5", "five dollars"),
        ("$0.99", "ninety nine cents"),
        ("$1.01", "one dollar and one cent"),
        ("$20.00", "twenty dollars"),
        ("$1,200", "one thousand two hundred dollars"),
        ("£1bn", "one billion pounds"),
        ("$3.5 million", "three point five million dollars"),
        ("$2.5M", "two point five million dollars"),
        ("$10k", "ten thousand dollars"),
        ("€20", "twenty euros"),
        ("20€", "twenty euros"),
        ("20 €", "twenty euros"),
        ("£4.20", "four pounds and twenty pence"),
        ("¥500", "five hundred yen"),
        ("-$5", "minus five dollars"),
        ("$5-10", "five to ten dollars"),
        ("$5–$10", "five to ten dollars"),
        ("a $5 bill", "a five dollar bill"),
        ("a $2 billion deal", "a two billion dollar deal"),
        ("US$50", "fifty dollars"),
        ("USD 50", "fifty dollars"),
        ("50 USD", "fifty dollars"),
        ("99¢", "ninety nine cents"),
    ]);
}

#[test]
fn abbreviations_and_letters() {
    check(&[
        ("Dr. Smith", "doctor Smith"),
        ("Elm Dr. is", "Elm drive is"),
        ("Mr. and Mrs. Jones", "mister and missus Jones"),
        ("St. Paul", "saint Paul"),
        ("Main St. is", "Main street is"),
        ("fruit, e.g. apples", "fruit for example apples"),
        ("i.e. this", "that is this"),
        ("etc.", "et cetera"),
        ("the U.S. Army", "the {US} Army"),
        ("U.S.'s", "US's"),
        ("J. R. R. Tolkien", "{J} {R} {R} Tolkien"),
        ("J.R.R. Tolkien", "{JRR} Tolkien"),
        ("a Ph.D. in", "a {PHD} in"),
        ("cats vs. dogs", "cats versus dogs"),
        ("Acme Inc. said", "Acme incorporated said"),
        ("Prof. X", "professor X"),
        ("Fig. 3", "figure three"),
        ("a fig. It", "a fig It"),
        ("vol. 2", "volume two"),
        ("Henry VIII", "Henry the eighth"),
        ("World War II", "World War two"),
        ("Chapter IV", "Chapter four"),
        ("Louis XIV of", "Louis the fourteenth of"),
        ("Part I", "Part one"),
        ("MCMXCIV", "nineteen ninety four"),
        ("and I think", "and I think"),
        ("MIX it", "MIX it"),
        ("GPT-4", "GPT four"),
        ("Kubernetes", "Kubernetes"),
        ("v1.2", "version one point two"),
        ("1.2.3", "one point two point three"),
        ("192.168.1.1", "one hundred ninety two dot one hundred sixty eight dot one dot one"),
        ("H2O", "H two O"),
        ("COVID-19", "COVID nineteen"),
        ("B2B", "B two B"),
        ("a 5-year-old boy", "a five year-old boy"),
        ("x86_64", "x eighty six underscore sixty four"),
        ("main.rs", "main dot {RS}"),
    ]);
}

#[test]
fn signs_and_addresses() {
    check(&[
        ("salt & pepper", "salt and pepper"),
        ("AT&T", "AT and T"),
        ("2 + 2 = 4", "two plus two equals four"),
        ("3 × 4", "three times four"),
        ("3 * 4", "three times four"),
        ("* item", "item"),
        ("5 - 3", "five minus three"),
        ("a < b", "a less than b"),
        ("5 > 3", "five greater than three"),
        ("~10", "about ten"),
        ("C++", "C plus plus"),
        ("C#", "C sharp"),
        ("and/or", "and or"),
        ("he/she", "he slash she"),
        ("#rust", "hashtag rust"),
        ("@leyden", "at leyden"),
        ("me@example.com", "me at example dot com"),
        (
            "https://example.com/a_b?c=1",
            "{HTTPS} colon slash slash example dot com slash {A} underscore {B} question mark {C} equals one",
        ),
        ("www.rust-lang.org", "{WWW} dot rust dash lang dot org"),
        ("example.io", "example dot {IO}"),
        ("§ 5", "section five"),
        ("© 2026", "copyright twenty twenty six"),
        ("**bold** and _thin_", "bold and thin"),
        ("“quoted” (text)", "quoted text"),
        ("word—word", "word word"),
        ("wait...what", "wait what"),
        ("don’t", "don't"),
        ("’tis", "'tis"),
        ("café naïve Zürich", "cafe naive Zurich"),
        ("π ≈ 3", "pi approximately three"),
        ("Привет", "Cyrillic letters"),
        ("東京 is", "Chinese letters is"),
        ("🎉🦀", "party emoji"),
        ("one\u{200b}two", "one two"),
        ("rock 'n' roll", "rock 'n roll"),
        ("line\u{ad}break", "linebreak"),
    ]);
}

#[test]
fn marks_and_spans() {
    let text = "Well... (yes), \"no\" — he's 42!";
    let kinds: Vec<String> = tokens(text, 0)
        .into_iter()
        .map(|token| match token.kind {
            Kind::Mark(mark) => mark.to_string(),
            Kind::Word(_) | Kind::Letters(_) => text[token.span].to_owned(),
        })
        .collect();
    assert_eq!(kinds, ["Well", "…", "(", "yes", ")", ",", "“", "no", "”", "—", "he's", "42", "42", "!"]);
}
