//! [`Template`] of `--prompt-template`: a text with the fields of a row.

use std::path::Path;

use leyden_text::{ChatTemplate, RenderOptions};
use serde_json::{Map, Value};

use crate::cli::failure::Failure;
use crate::cli::inputs::read_text;

/// Template in Jinja, as those of chats are.
pub(super) struct Template {
    template: ChatTemplate,
    source: String,
    /// Fields that every row must have.
    needed: Vec<String>,
}

impl Template {
    /// Reads a template: a file, or the text itself.
    pub(super) fn read(text: &str) -> Result<Template, Failure> {
        let is_file = !text.contains("{{") && Path::new(text).is_file();
        let source = if is_file { read_text(Path::new(text))? } else { text.to_owned() };
        let template = ChatTemplate::new(&source, "", "", "--prompt-template")?;
        let needed = needed(&source);
        if !source.contains("{{") && !source.contains("{%") {
            let what = format!("--prompt-template: `{text}` is no file and names no field");
            return Err(
                Failure::usage(what).hint("example: --prompt-template 'Translate to German: {{ text }}'")
            );
        }
        Ok(Template { template, source, needed })
    }

    /// Returns the source.
    pub(super) fn source(&self) -> &str {
        &self.source
    }

    /// Returns the text for a row.
    ///
    /// # Errors
    /// The reason why there is none.
    pub(super) fn render(&self, fields: &Map<String, Value>) -> Result<String, String> {
        if let Some(name) = self.needed.iter().find(|name| !fields.contains_key(*name)) {
            return Err(format!("field `{name}`: missing, and the template names it"));
        }
        let options = RenderOptions { extra: fields.clone(), ..RenderOptions::default() };
        let rendered = self.template.render(&[], &options);
        rendered.map(|text| text.into_text()).map_err(|error| error.to_string())
    }
}

/// Returns the names at the beginning of expressions of a template without statements, which could define others.
fn needed(source: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    if source.contains("{%") {
        return names;
    }
    for expression in source.split("{{").skip(1) {
        let expression = expression.trim_start_matches('-').trim_start();
        let end = expression.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(expression.len());
        let (name, rest) = expression.split_at(end);
        let is_name = name.starts_with(|c: char| c.is_alphabetic() || c == '_');
        // A call or a test of whether the name is defined.
        let is_other =
            rest.trim_start().starts_with('(') || rest.contains("default") || rest.contains(" is ");
        if is_name
            && !is_other
            && !["true", "false", "none", "not"].contains(&name)
            && !names.iter().any(|n| n == name)
        {
            names.push(name.to_owned());
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn templates_name_fields() {
        let fields = |value: Value| value.as_object().unwrap().clone();
        let template = Template::read("{{ title | upper }}: {{- text }}{{ note | default('') }}").unwrap();
        let row = fields(json!({ "title": "a", "text": "b", "other": 1 }));
        assert_eq!(template.render(&row).unwrap(), "A:b");
        let told = template.render(&fields(json!({ "title": "a" }))).unwrap_err();
        assert_eq!(told, "field `text`: missing, and the template names it");
        let looped = Template::read("{% for x in words %}{{ x }};{% endfor %}").unwrap();
        assert_eq!(looped.render(&fields(json!({ "words": ["a", "b"] }))).unwrap(), "a;b;");
        assert!(Template::read("nothing").is_err() && Template::read("{{ text").is_err());
    }
}
