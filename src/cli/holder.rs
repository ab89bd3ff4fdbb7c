//! Who asks, when the command line does not say.

use fencepost::limits::HOLDER_CHARS_MAX;
use fencepost::resource::Holder;
use std::env;
use std::os::unix::process::parent_id;

/// The options of a command that speaks for a holder.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// In whose name; unless set it is user@host:pid with the process id of the shell, so that the commands of
    /// one shell (or script) speak for the same holder and those of two do not
    #[arg(long, short = 'H', env = "FENCEPOST_HOLDER", value_name = "NAME")]
    holder: Option<Holder>,
}

impl Options {
    /// The holder that was named, or this shell's.
    pub(crate) fn holder(&self) -> Holder {
        self.holder.clone().unwrap_or_else(of_this_shell)
    }

    /// How to name the same holder in a command to be typed next: nothing if it is understood.
    pub(crate) fn flag(&self) -> String {
        let Some(holder) = &self.holder else {
            return String::new();
        };
        if env::var("FENCEPOST_HOLDER").is_ok_and(|name| name == holder.as_str()) {
            return String::new();
        }
        format!(" --holder {}", quoted(holder.as_str()))
    }
}

/// `user@host:pid` of the process that started us. Not the caller or the user alone: two scripts that one
/// user runs side by side must not pass for one holder, because a holder that asks again supersedes its
/// own grant.
fn of_this_shell() -> Holder {
    of_process(parent_id())
}

/// `user@host:pid` of this very process: of all that a shell starts side by side, each its own holder.
pub(crate) fn of_this_process() -> Holder {
    of_process(std::process::id())
}

fn of_process(pid: u32) -> Holder {
    let user = ["USER", "LOGNAME"]
        .iter()
        .find_map(|name| env::var(name).ok());
    let user = user.unwrap_or_else(|| format!("uid-{}", rustix::process::getuid().as_raw()));
    let host = rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned();
    compose(&user, &host, pid)
}

fn compose(user: &str, host: &str, shell: u32) -> Holder {
    let clean = |text: &str, longest: usize| -> String {
        let kept = text
            .chars()
            .filter(|c| !c.is_control() && !c.is_whitespace());
        kept.take(longest).collect()
    };
    // 80 scalars in all: "@", ":" and ten digits are twelve.
    const HALF: usize = (HOLDER_CHARS_MAX - 12) / 2;
    let name = format!("{}@{}:{shell}", clean(user, HALF), clean(host, HALF));
    Holder::new(name.as_str()).expect("no control characters, no blanks, at most 80 scalars")
}

/// `text` as a shell takes it for one word.
pub(crate) fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "@%+=:,./-_".contains(c);
    if !text.is_empty() && text.chars().all(plain) && !text.starts_with('-') {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_can_be_made_of_any_user_and_host() {
        assert_eq!(compose("ada", "lab", 7).as_str(), "ada@lab:7");
        assert_eq!(compose("", "", 0).as_str(), "@:0");
        let long = compose(&"u".repeat(500), &"é".repeat(500), u32::MAX);
        assert!(long.as_str().chars().count() <= HOLDER_CHARS_MAX);
        assert_eq!(compose("a b\n", "\u{7}h", 1).as_str(), "ab@h:1");
    }

    #[test]
    fn words_are_quoted_where_a_shell_would_break_them() {
        assert_eq!(quoted("jobs/nightly"), "jobs/nightly");
        assert_eq!(quoted("it's $HOME"), r"'it'\''s $HOME'");
        assert_eq!(quoted(""), "''");
        assert_eq!(quoted("-x"), "'-x'");
    }
}
