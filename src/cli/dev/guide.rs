//! What `fencepost dev` prints once it is up: where everything is, and what to try next.
//!
//! Everything printed can be pasted into a shell as it stands.

use std::{env, ffi::OsStr, path::Path};

use super::place::{FIRST_PORT, Seat};

/// The word that starts this program in the reader's shell: its name if the shell would find it, the
/// path to it otherwise (after `cargo run`, for instance).
pub(super) fn program() -> String {
    let name = env!("CARGO_PKG_NAME");
    let Ok(own) = env::current_exe() else {
        return name.to_owned();
    };
    if on_path(name, &own, env::var_os("PATH").as_deref()) {
        return name.to_owned();
    }
    let here = env::current_dir().unwrap_or_default();
    let shown = match own.strip_prefix(&here) {
        Ok(below) => Path::new(".").join(below),
        Err(_) => own,
    };
    quoted(&shown.display().to_string())
}

fn on_path(name: &str, own: &Path, path: Option<&OsStr>) -> bool {
    let found = path.and_then(|path| {
        let candidates = env::split_paths(path).map(|directory| directory.join(name));
        candidates.into_iter().find(|candidate| candidate.is_file())
    });
    found.is_some_and(|found| found.canonicalize().ok() == own.canonicalize().ok())
}

/// A word that a shell takes as one.
pub(super) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:,@".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// The addresses, one line a node.
pub(super) fn addresses(seats: &[Seat]) -> String {
    let line = |seat: &Seat| {
        format!(
            "  node {}   clients {}   peers {}   http {}\n",
            seat.id, seat.client, seat.peer, seat.http
        )
    };
    seats.iter().map(line).collect()
}

/// Commands to try, in blocks with a heading each.
pub(super) fn next_steps(seats: &[Seat], program: &str) -> String {
    let (Some(first), Some(last)) = (seats.first(), seats.last()) else {
        return String::new();
    };
    let mut text = String::new();
    if first.client.port() != FIRST_PORT || seats.len() > 3 {
        let endpoints: Vec<_> = seats.iter().map(|seat| seat.client.to_string()).collect();
        let endpoints = endpoints.join(",");
        text.push_str(&format!(
            "In another terminal, first tell the commands where the cluster is:\n  export FENCEPOST_ENDPOINTS={endpoints}\n\n"
        ));
    }
    text.push_str(&format!(
        "\
Try, in another terminal:
  {program} acquire daily-report --holder me --ttl 1m
  {program} acquire daily-report --holder you
  {program} inspect daily-report
  {program} list
  {program} status

The same with grpcurl; the services describe themselves by reflection:
  grpcurl -plaintext {client} list
  grpcurl -plaintext -d '{{\"resource\": \"daily-report\", \"holder\": \"me\", \"ttl_ms\": 60000}}' \\
    {client} fencepost.v1.Issuer/Acquire

With Python, without generated code:
  python3 -m venv venv && venv/bin/pip install grpcio grpcio-reflection
  venv/bin/python - <<'END'
{python}
END

Metrics, and whether a node is ready:
  curl http://{http}/metrics
  curl http://{http}/readyz
",
        client = first.client,
        http = last.http,
        python = python(first),
    ));
    text
}

/// Acquires by what reflection tells. Its lines are not indented, for neither Python nor the shell's
/// `END` would take them so.
fn python(seat: &Seat) -> String {
    format!(
        "\
import grpc
from google.protobuf import descriptor_pool, message_factory
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
channel = grpc.insecure_channel(\"{}\")
pool = descriptor_pool.DescriptorPool(ProtoReflectionDescriptorDatabase(channel))
method = pool.FindServiceByName(\"fencepost.v1.Issuer\").FindMethodByName(\"Acquire\")
ask, answer = map(message_factory.GetMessageClass, (method.input_type, method.output_type))
acquire = channel.unary_unary(\"/fencepost.v1.Issuer/Acquire\", ask.SerializeToString, answer.FromString)
print(acquire(ask(resource=\"weekly-report\", holder=\"python\", ttl_ms=60000), timeout=10))",
        seat.client
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_when_a_shell_would_break_them() {
        assert_eq!(
            quoted("./target/debug/fencepost"),
            "./target/debug/fencepost"
        );
        assert_eq!(quoted("/my dir/it's"), "'/my dir/it'\\''s'");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn endpoints_are_said_only_where_the_commands_would_not_find_them() {
        let seat = |n: u16| Seat {
            id: u64::from(n) + 1,
            client: ([127, 0, 0, 1], FIRST_PORT + n).into(),
            peer: ([127, 0, 0, 1], FIRST_PORT + 100 + n).into(),
            http: ([127, 0, 0, 1], FIRST_PORT + 200 + n).into(),
        };
        let seats: Vec<_> = (0..5).map(seat).collect();
        assert!(!next_steps(&seats[..1], "fencepost").contains("FENCEPOST_ENDPOINTS"));
        assert!(!next_steps(&seats[..3], "fencepost").contains("FENCEPOST_ENDPOINTS"));
        assert!(next_steps(&seats, "fencepost").contains("7103,127.0.0.1:7104\n"));
        let moved = next_steps(&seats[1..4], "fencepost");
        assert!(
            moved.contains("export FENCEPOST_ENDPOINTS=127.0.0.1:7101,"),
            "{moved}"
        );
    }
}
