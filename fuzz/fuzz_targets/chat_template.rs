//! Any text as a chat template is refused or parsed, and a parsed template renders or fails in bounded time.
#![no_main]

use leyden_text::{ChatTemplate, Message, RenderOptions};

libfuzzer_sys::fuzz_target!(|source: &str| {
    let Ok(template) = ChatTemplate::new(source, "<s>", "</s>", "fuzz.gguf") else { return };
    let messages =
        [Message::new("system", ""), Message::new("user", "é 'a'\n<b>"), Message::new("assistant", "c")];
    let tools = serde_json::json!([{"name": "f", "parameters": {"x": [1, 2.5, null, true, "é"]}}]);
    for add_generation_prompt in [false, true] {
        let tools = add_generation_prompt.then(|| tools.clone());
        let now = Some(std::time::SystemTime::UNIX_EPOCH);
        let options = RenderOptions { add_generation_prompt, tools, now, ..Default::default() };
        let _ = template.render(&messages, &options).map_err(|error| error.to_string());
    }
});
