//! Every limit of the words and of the core, each with the reason for its number.
//!
//! They are constants and not settings on purpose: replicas must refuse the same things at the same
//! log position, so a limit that decides an outcome belongs to the version and not to a node's file.
//! Units come last in a name. The assertions at the end relate the numbers to each other.

/// The greatest token value: a token must fit a SQL `BIGINT`, which is signed.
pub const TOKEN_VALUE_MAX: u64 = i64::MAX as u64;

/// The greatest token that JSON carries as a number: 2^53, up to which every whole number is a float
/// of its own. Beyond it a token is written as a string.
pub const TOKEN_JSON_NUMBER_MAX: u64 = 1 << 53;

/// How many lower token values one Raft term is worth: a term adds `2^16` to the value of a token.
pub const TOKEN_TERM_SHIFT: u32 = 16;

/// The highest floor. Half of the token space, so that `floor + term * 2^16 + index` cannot come near
/// [`TOKEN_VALUE_MAX`] for as long as terms and indexes stay within their own bounds. In
/// microseconds, which is what a restore raises the floor to, this is the year 148,000.
pub const FLOOR_MAX: u64 = TOKEN_VALUE_MAX / 2;

/// The longest resource name, in Unicode scalar values.
pub const RESOURCE_NAME_CHARS_MAX: usize = 160;

/// The longest holder name, in Unicode scalar values.
pub const HOLDER_CHARS_MAX: usize = 80;

/// The longest issuer name, in Unicode scalar values.
pub const ISSUER_NAME_CHARS_MAX: usize = 80;

/// The longest reason that an operator may give for a revocation, in Unicode scalar values.
pub const REASON_CHARS_MAX: usize = 200;

/// The longest scope of a token in a JSON envelope, in Unicode scalar values: a resource's name and
/// what stands before it.
pub const SCOPE_CHARS_MAX: usize = RESOURCE_NAME_CHARS_MAX + 40;

/// The longest moment of issue in a JSON envelope, in characters: RFC 3339 with room.
pub const ISSUED_AT_CHARS_MAX: usize = 64;

/// The most bytes that UTF-8 takes for one Unicode scalar value.
pub const CHAR_BYTES_MAX: usize = 4;

/// The shortest TTL: below this, a commit and a renewal no longer fit into a third of it.
pub const TTL_MS_MIN: u64 = 100;

/// The longest TTL, one day: a holder that dies blocks its resource for that long.
pub const TTL_MS_MAX: u64 = 24 * 60 * 60 * 1_000;

/// The TTL when nobody names one: it outlasts any election and any sane pause of a holder.
pub const TTL_MS_DEFAULT: u64 = 30_000;

/// The longest request id on the wire, in bytes; ours are 16 random ones.
pub const REQUEST_ID_BYTES_MAX: usize = 64;

/// How many later request ids must settle before one is forgotten: 131,072, which is about 13
/// seconds of the fastest cluster measured, and about 13 MiB of state when it is full.
pub const REQUEST_IDS_SETTLED_MAX: u32 = 1 << 17;

/// The most live grants in a cluster: about 400 MiB of state, and a snapshot that still moves in
/// seconds. Beyond it an acquire is refused, so that state cannot grow without bound.
pub const LIVE_GRANTS_MAX: usize = 1_000_000;

/// The most grants that one holder may have, the places it waits at included: one tenth of all, so
/// that a holder in a loop leaves room for the others. A place counts because it may become a grant
/// at any moment, and a hand-over must not fail.
pub const GRANTS_PER_HOLDER_MAX: u32 = 100_000;

/// The most waiters in a cluster: about 25 MiB of state. Each is a caller that a node vouches for
/// twice a second, so a waiter costs more than a lease does.
pub const WAITERS_MAX: u32 = 65_536;

/// The most waiters for one resource. At the fastest hand-over that was measured the last of them
/// still waits for seconds, and usually for hours: whoever queues deeper wants another design.
pub const WAITERS_PER_RESOURCE_MAX: u32 = 8_192;

/// The most marks in the cluster's own guard register: as many as there may be live grants, about 150
/// MiB of state. A mark is never forgotten, so a resource whose name is made anew for each use belongs
/// to a guard beside its data.
pub const MARKS_MAX: u64 = LIVE_GRANTS_MAX as u64;

/// The longest wait for a resource, one day; zero does not wait.
pub const WAIT_MS_MAX: u64 = 24 * 60 * 60 * 1_000;

/// The lease of a grant that came after waiting, until its first renewal claims it: the TTL if that is
/// shorter. A hand-over to somebody who is gone costs this much, and a client that is there renews at
/// once, so it has the time of several failed attempts.
pub const UNCLAIMED_LEASE_MS: u64 = 2_000;

/// The longest encoded command, in bytes. The log packs entries into records of 4 KiB, so a command
/// must fit into one; it is checked before the command is proposed.
pub const COMMAND_BYTES_MAX: usize = 4_000;

/// What a command spends beside its list or its names: format, tag, stamp, count and fixed fields.
pub const COMMAND_HEAD_BYTES_MAX: usize = 128;

/// The most renewals in one entry, when all of them keep their TTL.
pub const RENEWALS_PER_COMMAND_MAX: usize = 400;

/// One renewal that keeps its TTL, encoded.
pub const RENEWAL_BYTES_MIN: usize = 9;

/// One renewal that names a TTL, encoded.
pub const RENEWAL_BYTES_MAX: usize = 12;

/// The most leases that one entry may expire: a token and its number of renewals take 16 bytes.
pub const EXPIRIES_PER_COMMAND_MAX: usize = 200;

/// One lease to expire, encoded.
pub const EXPIRY_BYTES: usize = 16;

/// The most calls that may wait in line at one node: twice as many as there are places, for those who
/// came back while their first call is still open.
pub const WAITING_CALLS_MAX: usize = 131_072;

/// What a node says about one of them: the key of a request id and an attempt.
pub const ATTACHED_BYTES: usize = 16 + 4;

/// The most places that one entry may end.
pub const WITHDRAWALS_PER_COMMAND_MAX: usize = 180;

/// One place to end, encoded: 128 bits that name it and a varint of 32.
pub const WITHDRAWAL_BYTES_MAX: usize = 16 + 5;

/// The same with the shortest attempt.
pub const WITHDRAWAL_BYTES_MIN: usize = 16 + 1;

/// The most grants on one page of a listing: about 1 MiB of the longest names.
pub const LIST_PAGE_MAX: usize = 1_000;

/// How many grants a page of a listing carries when the caller names no number.
pub const LIST_PAGE_DEFAULT: usize = 100;

/// How often a watch marks its progress while nothing happens, at least and at most: often enough to
/// notice a dead connection within a minute, and seldom enough to cost nothing.
pub const WATCH_PROGRESS_MS_MIN: u64 = 100;

/// See [`WATCH_PROGRESS_MS_MIN`].
pub const WATCH_PROGRESS_MS_MAX: u64 = 60_000;

/// How often it does when nobody says.
pub const WATCH_PROGRESS_MS_DEFAULT: u64 = 5_000;

/// The most node ids that the state remembers as used. Members are added by hand; somebody who
/// reaches this is running a loop that should not be.
pub const NODE_IDS_MAX: usize = 100_000;

/// A node's lease outlasts the TTL by this many thousandths, so that clock rates that differ by 0.1 %
/// each way can never end a lease before its holder's own deadline.
pub const LEASE_MARGIN_PER_MILLE: u64 = 2;

const _: () = {
    assert!(TTL_MS_MIN <= TTL_MS_DEFAULT && TTL_MS_DEFAULT <= TTL_MS_MAX);
    // A TTL is kept as 32 bits in the state and as a varint of at most four bytes in a renewal.
    assert!(TTL_MS_MAX < 1 << 28);
    assert!(RENEWAL_BYTES_MAX == 8 + 4);
    assert!(
        RENEWALS_PER_COMMAND_MAX * RENEWAL_BYTES_MIN + COMMAND_HEAD_BYTES_MAX <= COMMAND_BYTES_MAX
    );
    assert!(EXPIRIES_PER_COMMAND_MAX * EXPIRY_BYTES + COMMAND_HEAD_BYTES_MAX <= COMMAND_BYTES_MAX);
    assert!(
        WITHDRAWALS_PER_COMMAND_MAX * WITHDRAWAL_BYTES_MAX + COMMAND_HEAD_BYTES_MAX
            <= COMMAND_BYTES_MAX
    );
    assert!(WAITERS_PER_RESOURCE_MAX <= WAITERS_MAX);
    assert!((GRANTS_PER_HOLDER_MAX as usize) < LIVE_GRANTS_MAX);
    // A wait is kept as 32 bits in the state.
    assert!(WAIT_MS_MAX < 1 << 32);
    assert!(TTL_MS_MIN <= UNCLAIMED_LEASE_MS && UNCLAIMED_LEASE_MS <= TTL_MS_MAX);
    // The longest acquire and the longest revoke fit into a command.
    assert!(
        (RESOURCE_NAME_CHARS_MAX + HOLDER_CHARS_MAX) * CHAR_BYTES_MAX + COMMAND_HEAD_BYTES_MAX
            <= COMMAND_BYTES_MAX
    );
    assert!(
        (RESOURCE_NAME_CHARS_MAX + REASON_CHARS_MAX) * CHAR_BYTES_MAX + COMMAND_HEAD_BYTES_MAX
            <= COMMAND_BYTES_MAX
    );
    // Names are measured by a 16-bit length in encoded form.
    assert!(RESOURCE_NAME_CHARS_MAX * CHAR_BYTES_MAX <= u16::MAX as usize);
    assert!(LIST_PAGE_DEFAULT <= LIST_PAGE_MAX);
    assert!(WATCH_PROGRESS_MS_MIN <= WATCH_PROGRESS_MS_DEFAULT);
    assert!(WATCH_PROGRESS_MS_DEFAULT <= WATCH_PROGRESS_MS_MAX);
    assert!(FLOOR_MAX < TOKEN_VALUE_MAX);
};
