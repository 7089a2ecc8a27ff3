//! `leyden --help`: the commands in groups.

use clap::builder::StyledStr;
use clap::builder::styling::Styles;

/// Group of commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Group {
    /// Answers on the terminal.
    Run,
    /// Servers.
    Serve,
    /// Work on texts without a conversation.
    Texts,
    /// Models on this machine.
    Models,
    /// Smaller and other forms of models.
    Smaller,
    /// Quality of models.
    Prove,
    /// Speed of models and machines.
    Measure,
    /// The program itself.
    Program,
}

/// GROUPS in the order of the help, with their headings.
const GROUPS: [(Group, &str); 8] = [
    (Group::Run, "Run a model"),
    (Group::Serve, "Serve models"),
    (Group::Texts, "Work on texts"),
    (Group::Models, "Get and keep models"),
    (Group::Smaller, "Make models smaller, and convert them"),
    (Group::Prove, "Prove their quality"),
    (Group::Measure, "Plan and measure speed"),
    (Group::Program, "The program"),
];

/// Command that clap adds.
const HELP: (&str, &str) = ("help", "Show the help of a command");

/// Returns the template of the help, with a line for each command.
pub(super) fn template(rows: &[(Group, &str, &str)]) -> StyledStr {
    let styles = Styles::styled();
    let (heading, name) = (styles.get_header(), styles.get_literal());
    let width = rows.iter().map(|(_, name, _)| name.len()).max().unwrap_or(0) + 2;
    let mut text = "{before-help}{about-with-newline}\n{usage-heading} {usage}\n".to_owned();
    for (group, title) in GROUPS {
        text += &format!("\n{heading}{title}:{heading:#}\n");
        let own = rows.iter().filter(|row| row.0 == group).map(|row| (row.1.replace('_', "-"), row.2));
        let help = (group == Group::Program).then(|| (HELP.0.to_owned(), HELP.1));
        for (command, line) in own.chain(help) {
            let blanks = " ".repeat(width - command.len());
            text += &format!("  {name}{command}{name:#}{blanks}{line}\n");
        }
    }
    text += &format!("\n{heading}Options:{heading:#}\n{{options}}{{after-help}}");
    StyledStr::from(text)
}

#[cfg(test)]
mod tests {
    use super::super::{Cli, ROWS};
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn help_has_a_line_for_each_command_in_a_group() {
        for width in [80, 120] {
            let mut program = Cli::command().term_width(width);
            let help = program.render_help().to_string();
            program.build();
            for command in program.get_subcommands() {
                let begin = format!("\n  {} ", command.get_name());
                assert_eq!(help.matches(&begin).count(), 1, "{begin}: {help}");
            }
            let wide = help.lines().find(|line| line.chars().count() > width);
            assert_eq!(wide, None);
        }
        assert!(GROUPS.iter().all(|(group, _)| ROWS.iter().any(|row| row.0 == *group)));
    }
}
