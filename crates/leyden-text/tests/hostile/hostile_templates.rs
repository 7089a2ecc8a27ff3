//! Templates that try to run forever, exhaust memory or overflow the stack: each is an error that names file and
//! field, in limited time and memory. The tests run one after the other, because they measure the memory of the
//! process.
use crate::MEMORY;
use leyden_testkit::patience;
use std::time::{Duration, Instant};

use leyden_text::{ChatTemplate, ErrorKind, Message, RenderOptions};

/// Maximum heap size of a template in bytes, without the allocator's reserve.
const MAX_MEMORY: usize = 200 << 20;

fn render(source: &str, messages: &[Message]) -> Result<String, leyden_text::Error> {
    ChatTemplate::new(source, "<s>", "</s>", "evil.gguf")?
        .render(messages, &RenderOptions::default())
        .map(leyden_text::Rendered::into_text)
}

/// Loop that doubles `ns.x` sixty times.
fn doubling(start: &str, step: &str) -> String {
    format!(
        "{{% set ns = namespace(x={start}) %}}{{% for i in range(60) %}}{{% set ns.x = {step} %}}{{% endfor %}}{{{{ ns.x }}}}"
    )
}

/// Runs `body` as often as allowed.
fn endless(setup: &str, body: &str) -> String {
    let loops = "{% for a in range(100000) %}{% for b in range(100000) %}";
    format!("{setup}{loops}{body}{{% endfor %}}{{% endfor %}}")
}

fn hostile() -> Vec<(&'static str, String)> {
    let nested = |open: &str, inner: &str, close: &str, n: usize| open.repeat(n) + inner + &close.repeat(n);
    vec![
        // Time.
        ("endless loop", endless("", "")),
        ("endless output", endless("", "xxxxxxxxxxxxxxxx")),
        ("endless strings", endless("", "{% set x = 'a' ~ a ~ b %}")),
        ("huge range", "{% for i in range(1000000000) %}{% endfor %}".into()),
        ("huge range as text", "{{ range(0, 9223372036854775807, 1) }}".into()),
        ("sum of ranges", endless("", "{{ range(100000) | sum }}")),
        ("sorting", endless("{% set x = range(100000) | list %}", "{% set y = x | sort(reverse=true) %}")),
        ("unique", "{{ range(100000) | unique | list | length }}".into()),
        ("searching a list", endless("{% set x = range(100000) | list %}", "{{ -1 in x }}")),
        ("searching a text", endless("{% set x = 'a' * 1000000 %}", "{{ 'b' in x }}{{ x.count('aab') }}")),
        ("comparing texts", endless("{% set x = 'a' * 1000000 %}", "{{ x == x ~ '' }}")),
        (
            "stripping",
            endless("{% set x = 'a' * 100000 %}{% set y = 'b' * 100000 %}", "{{ x.strip(y ~ 'a') }}"),
        ),
        ("replacing", endless("{% set x = 'a' * 1000000 %}", "{% set y = x.replace('a', 'b') %}")),
        ("case", endless("{% set x = 'ΐ' * 1000000 %}", "{% set y = x | upper %}")),
        ("length", endless("{% set x = 'é' * 1000000 %}", "{{ x | length }}")),
        ("slices", endless("{% set x = 'é' * 1000000 %}", "{% set y = x[::-1] %}")),
        ("big literal in a loop", endless("", &format!("{{% set x = '{}' %}}", "x".repeat(200_000)))),
        ("many variables", {
            let sets: String = (0..15_000).map(|i| format!("{{%set v{i}=0%}}")).collect();
            format!("{{% macro m() %}}{sets}{}{{% endmacro %}}{{{{ m() }}}}", endless("", "{{ v0 }}"))
        }),
        ("many attributes", {
            endless("{% set ns = namespace() %}", "{% set ns.x = ns.y %}")
                + &(0..9_000).map(|i| format!("{{%set ns.v{i}=0%}}")).collect::<String>()
        }),
        ("building dictionaries", {
            let entries: String = (0..15_000).map(|i| format!("'{i}':{i},")).collect();
            endless("", &format!("{{% set x = {{{entries}}} %}}"))
        }),
        ("exponential macros", {
            let doubles: String = (1..60)
                .map(|i| {
                    format!("{{% macro m{i}() %}}{{{{ m{0}() }}}}{{{{ m{0}() }}}}{{% endmacro %}}", i - 1)
                })
                .collect();
            format!("{{% macro m0() %}}{{% endmacro %}}{doubles}{{{{ m59() }}}}")
        }),
        (
            "map over map",
            endless("{% set x = range(100000) | list %}", "{{ x | map('string') | map('int') | sum }}"),
        ),
        ("select", endless("{% set x = range(100000) | list %}", "{{ x | select('odd') | list | length }}")),
        ("nested json", endless("{% set x = [1] * 100000 %}", "{% set y = x | tojson(indent=1) %}")),
        // Memory.
        ("text times number", "{{ 'a' * 10**9 }}".into()),
        ("number times text", "{{ 9223372036854775807 * 'ab' }}".into()),
        ("list times number", "{% set x = [0] * 1000000000 %}{{ x }}".into()),
        ("tuple times number", "{% set x = (0, 1) * 9223372036854775807 %}".into()),
        ("doubling by ~", doubling("'a'", "ns.x ~ ns.x")),
        ("doubling by +", doubling("'a'", "ns.x + ns.x")),
        ("doubling a list", doubling("[1]", "ns.x + ns.x")),
        ("doubling a tuple", doubling("(1,)", "ns.x + ns.x")),
        ("doubling by join", doubling("'a'", "[ns.x, ns.x] | join")),
        ("doubling by method join", doubling("'a'", "'-'.join([ns.x, ns.x])")),
        ("doubling by replace", doubling("'aa'", "ns.x.replace('a', 'aa')")),
        ("doubling by filter replace", doubling("'aa'", "ns.x | replace('a', 'aa')")),
        ("doubling by replace of nothing", doubling("'aa'", "ns.x | replace('', 'aa')")),
        ("doubling by escape", doubling("'&'", "ns.x ~ (ns.x | escape)")),
        ("doubling by json", doubling("'\\\\'", "ns.x | tojson")),
        ("doubling by repr", doubling("'\\\\'", "[ns.x] | string")),
        ("doubling by upper", doubling("'ΐ'", "(ns.x | upper) ~ ns.x")),
        ("doubling by nesting", doubling("[1]", "[ns.x, ns.x]")),
        ("doubling by nesting, printed", doubling("[1]", "[ns.x, ns.x] | string")),
        ("doubling by capture", {
            "{% set ns = namespace(x='a') %}{% for i in range(60) %}{% set y %}{{ ns.x }}{{ ns.x }}{% endset %}\
             {% set ns.x = y %}{% endfor %}{{ ns.x }}"
                .into()
        }),
        ("doubling by macro", {
            "{% macro m(x) %}{{ x }}{{ x }}{% endmacro %}{% set ns = namespace(x='a') %}\
             {% for i in range(60) %}{% set ns.x = m(ns.x) %}{% endfor %}{{ ns.x }}"
                .into()
        }),
        ("doubling dictionaries", doubling("{'a': 1}", "{'a': ns.x, 'b': ns.x}")),
        ("shared list as json", {
            let levels = "{% for i in range(50) %}{% set ns.x = [ns.x] * 1000 %}{% endfor %}";
            format!("{{% set ns = namespace(x=1) %}}{levels}{{{{ ns.x | tojson }}}}")
        }),
        ("comparing shared lists", {
            let levels = "{% for i in range(50) %}{% set ns.x = [ns.x] * 100 %}{% set ns.y = [ns.y] * 100 %}{% endfor %}";
            format!("{{% set ns = namespace(x=1, y=1) %}}{levels}{{{{ ns.x == ns.y }}}}")
        }),
        ("indent by a billion", "{{ 'a' | indent(1000000000, true) }}".into()),
        ("indenting every line", "{% set x = 'a\\n' * 100000 %}{{ x | indent(100000) }}".into()),
        ("json indented by a billion", "{{ [1] | tojson(indent=1000000000) }}".into()),
        (
            "json with long separators",
            "{% set s = 'a' * 1000000 %}{{ ([1] * 1000) | tojson(separators=(s, s)) }}".into(),
        ),
        ("zfill", "{{ 'a'.zfill(1000000000) }}".into()),
        ("ljust", "{{ 'a'.ljust(9223372036854775807, 'é') }}".into()),
        (
            "splitting into many",
            endless("{% set x = 'a ' * 4000000 %}", "{% set y = x.split() %}{% set z = x.split(' ') %}"),
        ),
        ("listing a text", "{% set x = 'a' * 10000000 %}{{ x | list | length }}".into()),
        (
            "keeping everything",
            endless("{% set ns = namespace(x=[]) %}", "{% set ns.x = ns.x + ['some text'] %}"),
        ),
        ("keeping namespaces", endless("", "{% set ns = namespace(a=1) %}")),
        ("keeping macros", endless("", "{% macro m() %}{% endmacro %}")),
        ("keeping undefined names", {
            let name = "n".repeat(10_000);
            endless("{% set ns = namespace(x=[]) %}", &format!("{{% set ns.x = ns.x + [{name}] %}}"))
        }),
        ("center", "{{ 'a' | center(1000000000) }}".into()),
        ("center by method", "{{ 'a'.center(9223372036854775807, 'é') }}".into()),
        ("batch filled up", "{{ [1] | batch(1000000000, 0) | list }}".into()),
        ("slices", "{{ [1] | slice(1000000000) | list }}".into()),
        ("width of a conversion", "{{ '%1000000000d' % 1 }}".into()),
        ("width beyond all numbers", "{{ '%99999999999999999999d' % 1 }}".into()),
        ("width as a value", "{{ '%*d' % (9223372036854775807, 1) }}".into()),
        ("digits of a conversion", "{{ '%.1000000000f' % 1.5 }}".into()),
        (
            "digits of an integer",
            "{{ '%.16000000d' % 1 }}{{ '%.16000000d' % 1 }}{{ '%.16000000d' % 1 }}".into(),
        ),
        ("width of a field", "{{ '{:1000000000}'.format(1) }}".into()),
        ("digits of a field", "{{ '{:.1000000000f}'.format(1.5) }}".into()),
        ("width in a field", "{{ '{:{}}'.format(1, 1000000000) }}".into()),
        ("fields", doubling("'{0}{0}'", "ns.x.format(ns.x)")),
        ("conversions", doubling("'%s%s'", "ns.x % (ns.x, ns.x)")),
        (
            "conversions in a loop",
            endless(
                "{% set x = '%s' * 100000 %}{% set y = ['a'] * 100000 %}",
                "{% set z = x | format(*y) %}",
            ),
        ),
        ("truncating", endless("{% set x = 'a ' * 1000000 %}", "{% set y = x | truncate(1000000) %}")),
        ("long ends", doubling("'a'", "ns.x | truncate(9000000000000000000, true, ns.x, 0) ~ ns.x")),
        ("wrapping", endless("{% set x = 'a-' * 1000000 %}", "{% set y = x | wordwrap(1) %}")),
        (
            "wrapping with long ends",
            "{% set s = 'a' * 1000000 %}{{ ('b ' * 1000) | wordwrap(1, wrapstring=s) }}".into(),
        ),
        ("urlencode", doubling("' '", "ns.x | urlencode ~ ns.x")),
        ("forceescape", doubling("'&'", "(ns.x | forceescape) ~ ns.x")),
        ("attributes", doubling("'&'", "({'a': ns.x} | xmlattr | string) ~ ns.x")),
        ("tabulators", "{{ ('\\t' * 1000) .expandtabs(1000000000) }}".into()),
        (
            "grouping",
            endless("{% set x = range(100000) | list %}", "{% set y = x | groupby(0, default=1) %}"),
        ),
        ("joiners", endless("{% set ns = namespace(x=[]) %}", "{% set ns.x = ns.x + [joiner('a')] %}")),
        ("cyclers", endless("{% set ns = namespace(x=[]) %}", "{% set ns.x = ns.x + [cycler(1)] %}")),
        (
            "spreading",
            endless("{% set x = [1] * 100000 %}", "{% set y = dict([], **{}) %}{% set z = cycler(*x) %}"),
        ),
        (
            "a loop that remembers itself",
            endless("", "{% for i in [1] %}{% set x = loop.changed(loop) %}{% endfor %}"),
        ),
        (
            "call blocks",
            endless("{% macro m() %}{{ caller() }}{% endmacro %}", "{% call m() %}{% endcall %}"),
        ),
        ("doubling by caller", {
            "{% macro m() %}{{ caller() }}{{ caller() }}{% endmacro %}{% set ns = namespace(x='a') %}\
             {% for i in range(60) %}{% set y %}{% call m() %}{{ ns.x }}{% endcall %}{% endset %}{% set ns.x = y %}{% endfor %}{{ ns.x }}"
                .into()
        }),
        // Depth.
        (
            "recursion by caller",
            "{% macro m() %}{% call m() %}{{ caller() }}{% endcall %}{% endmacro %}{{ m() }}".into(),
        ),
        ("recursion of a loop", "{% for i in [1] recursive %}{{ loop([1]) }}{% endfor %}".into()),
        ("recursion of a loop in pairs", "{% for i in [1] recursive %}{{ loop([1, 1]) }}{% endfor %}".into()),
        (
            "calls in calls",
            nested(
                "{% macro m() %}{% endmacro %}",
                &nested("{% call m() %}", "", "{% endcall %}", 5_000),
                "",
                1,
            ),
        ),
        ("fields in names", format!("{{{{ '{}'.format(1) }}}}", "{".repeat(100_001))),
        ("parts of fields", format!("{{{{ '{{0{}}}'.format(1) }}}}", ".a".repeat(100_000))),
        ("recursion", "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}".into()),
        ("recursion with many variables", {
            let sets: String = (0..15_000).map(|i| format!("{{%set v{i}=0%}}")).collect();
            format!("{{% macro m() %}}{sets}{{{{ m() }}}}{{% endmacro %}}{{{{ m() }}}}")
        }),
        ("recursion among many variables", {
            let sets: String = (0..15_000).map(|i| format!("{{%set v{i}=0%}}")).collect();
            format!(
                "{{% for i in [1] %}}{sets}{{% set ns = namespace() %}}{{% macro m() %}}{{{{ ns.m() }}}}{{% endmacro %}}\
                 {{% set ns.m = m %}}{{{{ m() }}}}{{% endfor %}}"
            )
        }),
        ("mutual recursion", {
            "{% macro a(n) %}{{ b([n]) }}{% endmacro %}{% macro b(n) %}{{ a((n,)) }}{% endmacro %}{{ a(1) }}"
                .into()
        }),
        ("recursion in arguments", "{% macro m(x) %}{{ m(m(m(x))) }}{% endmacro %}{{ m(1) }}".into()),
        ("recursion in defaults", "{% macro m(x=m()) %}{% endmacro %}{{ m() }}".into()),
        (
            "deep list",
            "{% set ns = namespace(x=1) %}{% for i in range(100000) %}{% set ns.x = [ns.x] %}{% endfor %}"
                .into(),
        ),
        ("deep dictionary", {
            "{% set ns = namespace(x=1) %}{% for i in range(100000) %}{% set ns.x = {'a': ns.x} %}{% endfor %}".into()
        }),
        ("brackets", nested("{{ ", &nested("(", "1", ")", 50_000), " }}", 1)),
        ("lists", nested("{{ ", &nested("[", "1", "]", 50_000), " }}", 1)),
        ("dictionaries", nested("{{ ", &nested("{1:", "1", "}", 40_000), " }}", 1)),
        ("subscripts", nested("{{ ", &nested("a[", "1", "]", 40_000), " }}", 1)),
        ("calls", nested("{{ ", &nested("a(", "1", ")", 40_000), " }}", 1)),
        ("filters in filters", nested("{{ ", &nested("1|d(", "1", ")", 30_000), " }}", 1)),
        ("not", nested("{{ ", &nested("not ", "1", "", 50_000), " }}", 1)),
        ("signs", nested("{{ ", &nested("-", " 1", "", 100_000), " }}", 1)),
        ("ifs", nested("{% if 1 %}", "", "{% endif %}", 10_000)),
        ("fors", nested("{% for i in [1] %}", "", "{% endfor %}", 5_000)),
        ("sets", nested("{% set x %}", "", "{% endset %}", 8_000)),
        ("targets", format!("{{% set {} = 1 %}}", nested("(", "a", ")", 50_000))),
        ("macros in macros", nested("{% macro m() %}", "", "{% endmacro %}", 5_000)),
        // Source.
        ("long source", "x".repeat(300_000)),
        ("unclosed tags", "{{ ".repeat(50_000)),
        ("unclosed comment", "{# ".repeat(50_000)),
        ("unclosed raw", "{% raw %}".to_string() + &"{% ".repeat(50_000)),
        ("unclosed text", "{{ '".to_string() + &"\\".repeat(100_000)),
        ("large number", format!("{{{{ {} }}}}", "9".repeat(100_000))),
        ("large power", "{{ 10 ** 100 }}".into()),
        ("other tags", "{% include '/etc/passwd' %}".into()),
        ("imports", "{% import 'os' as os %}".into()),
        ("inheritance", "{% extends 'base' %}".into()),
        ("attributes of Python", "{{ ''.__class__.__mro__ }}".into()),
    ]
}

#[test]
fn hostile_templates_fail_soon_in_bounded_memory() {
    let _alone = crate::alone();
    let messages = [Message::new("user", "Hello")];
    let mut most = 0;
    let limit = patience(Duration::from_secs(8));
    for (name, source) in hostile() {
        MEMORY.reset_peak_usage();
        let (before, begin) = (MEMORY.current_usage(), Instant::now());
        let result = render(&source, &messages);
        let (peak, took) = (MEMORY.peak_usage() - before, begin.elapsed());
        most = most.max(peak);
        assert!(peak < MAX_MEMORY, "{name}: {} MiB", peak >> 20);
        let error = match result {
            Ok(text) => panic!("{name}: {} bytes of text", text.len()),
            Err(error) => error.to_string(),
        };
        assert!(error.starts_with("evil.gguf: tokenizer.chat_template: "), "{name}: {error}");
        assert!(error.len() < 400, "{name}: {error}");
        assert!(took < limit, "{name}: {took:?}");
        eprintln!("{name}: {took:.1?}: {}", error.trim_start_matches("evil.gguf: tokenizer.chat_template: "));
    }
    long_chains_are_not_deep(&messages);
    eprintln!("at most {} MiB on the heap", most >> 20);
}

/// Long templates, neither deep nor slow, work.
fn long_chains_are_not_deep(messages: &[Message]) {
    let chain = |first: &str, next: &str, n: usize| format!("{{{{ {first}{} }}}}", next.repeat(n));
    for (source, want) in [
        (chain("1", "+1", 50_000), "50001".to_string()),
        (chain("1", "*1", 50_000), "1".into()),
        (chain("'a'", "~'a'", 20_000), "a".repeat(20_001)),
        (chain("1", " and 1", 20_000), "1".into()),
        (chain("0", " or 0", 20_000), "0".into()),
        (chain("1", "<=1", 50_000), "True".into()),
        (chain("'a'", "|trim", 20_000), "a".into()),
        (chain("'a'", ".strip()", 20_000), "a".into()),
        (chain("'a'", "[0]", 20_000), "a".into()),
        (format!("{{{{ {}3 }}}}", "1 if 0 else ".repeat(10_000)), "3".into()),
        (format!("{{% if 0 %}}{}{{% else %}}x{{% endif %}}", "{% elif 0 %}".repeat(10_000)), "x".into()),
        ("{# #}".repeat(40_000), String::new()),
    ] {
        let shown: String = source.chars().take(30).collect();
        assert_eq!(render(&source, messages).map_err(|e| e.to_string()), Ok(want), "{shown}");
    }
    // Many long messages are not an attack.
    let messages = vec![Message::new("user", "Text. ".repeat(1000)); 500];
    let source = "{% for m in messages %}{{ '<' + m.role + '>' + m['content'] | trim + '\n' }}{% endfor %}";
    assert_eq!(render(source, &messages).unwrap().len(), 500 * 6006);
    // Neither is a very long one with all operations that real templates apply to content.
    let long = [Message::new("user", "<think>a</think> word\n".repeat(500_000))];
    let source = "{% set c = messages[0].content %}{% if '</think>' in c %}{% set c = c.split('</think>')[-1] %}{% endif %}\
                  {% set d = messages[0]['content'][1:].strip() | replace('think', 'x') %}{{ c | trim }}{{ d | length }}\
                  {{ messages[0].content.split() | length }}{{ messages[0].content.splitlines() | length }}\
                  {{ (messages[0] | tojson) | length }}";
    assert!(render(source, &long).unwrap().starts_with("word"));
}

#[test]
fn the_stack_of_the_caller_may_be_small() {
    let _alone = crate::alone();
    let deep = format!("{}{}{}", "{{ ".to_owned() + &"(".repeat(99), "1", ")".repeat(99) + " }}");
    let blocks = "{% if 1 %}".repeat(99) + "x" + &"{% endif %}".repeat(99);
    let thread = std::thread::Builder::new().stack_size(256 << 10).spawn(move || {
        for (source, want) in [(deep, "1"), (blocks, "x")] {
            assert_eq!(render(&source, &[]).unwrap(), want);
        }
        let error = render("{{ missing.name }}", &[]).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::TemplateRender { line: 1, .. }), "{error}");
    });
    thread.unwrap().join().unwrap();
}
