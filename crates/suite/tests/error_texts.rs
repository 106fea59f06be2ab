//! Every error text of the workspace with its kind and its advice, compared with
//! `testdata/errors.txt`. A commit that changes a text shows the change there.
//!
//! `EVERBYTE_REWRITE=1 cargo test -p everbyte-suite --test error_texts` writes the file anew. A new
//! variant of an error enum does not compile here before it has an example.

use everbyte_media::{Damage, ErrorInfo, Format};
use everbyte_store::{Access, Engine};
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

/// One line for each variant of an error enum, by an example. The match has an arm for each name,
/// so a variant without an example does not compile. `open`: the enum is not exhaustive.
macro_rules! texts {
    ($page:ident, $crate_name:literal, $error:ty, { $($variant:ident => $example:expr,)* }) => {
        texts!(@ $page, $crate_name, $error, { $($variant => $example,)* }, {});
    };
    ($page:ident, open $crate_name:literal, $error:ty, { $($variant:ident => $example:expr,)* }) => {
        texts!(@ $page, $crate_name, $error, { $($variant => $example,)* }, { _ => "unlisted" });
    };
    (@ $page:ident, $crate_name:literal, $error:ty, { $($variant:ident => $example:expr,)* }, { $($rest:tt)* }) => {{
        type E = $error;
        fn variant(error: &E) -> &'static str {
            match error {
                $(E::$variant { .. } => stringify!($variant),)*
                $($rest)*
            }
        }
        writeln!($page, "\n# {}", $crate_name).unwrap();
        for (name, error) in [$((stringify!($variant), $example)),*] {
            assert_eq!(variant(&error), name, "the example of another variant");
            line(&mut $page, name, &error);
        }
    }};
}

fn line(page: &mut String, name: &str, error: &dyn ErrorInfo) {
    let text = error.to_string();
    let (what, advice) = text.split_once("; ").map_or((text.as_str(), None), |(what, advice)| (what, Some(advice)));
    writeln!(page, "\n{name} [{}]\n  {what}", error.kind()).unwrap();
    if let Some(advice) = advice {
        writeln!(page, "  -> {advice}").unwrap();
    }
}

const AT: u64 = 0x1_0000;

fn path() -> PathBuf {
    "/pm/store".into()
}

fn object() -> String {
    "accounts".into()
}

fn detail() -> String {
    "DETAIL".into()
}

fn damage() -> Box<Damage> {
    Damage::at(AT, "DETAIL").of_file(path()).of_object("accounts").into()
}

fn format() -> Format {
    Format { found: 9, known: 3 }
}

fn older() -> Format {
    Format { found: 2, known: 3 }
}

fn refused() -> io::Error {
    io::Error::from_raw_os_error(28)
}

fn media() -> everbyte_media::Error {
    everbyte_media::Error::Forked { owner: 12 }
}

fn store() -> everbyte_store::Error {
    everbyte_store::Error::Busy
}

fn heap() -> everbyte_heap::Error {
    everbyte_heap::Error::NoHeap { object: object() }
}

fn log() -> everbyte_log::Error {
    everbyte_log::Error::Full { at: AT, needed: 64 }
}

fn tx() -> everbyte_tx::Error {
    everbyte_tx::Error::Conflict
}

fn page() -> String {
    let mut page = String::from(
        "Every error text: the variant, its kind, the text, and behind the arrow the advice. Written by\n\
         tests/error_texts.rs.\n",
    );
    texts!(page, "members", everbyte_members::Error, {
        Io => E::Io { action: "open it", path: path(), source: refused() },
        InUse => E::InUse { path: path(), holder: "another process (pid 456)".into() },
        Forked => E::Forked { owner: 12 },
    });
    texts!(page, "media", everbyte_media::Error, {
        Io => E::Io { action: "open it", path: path(), source: refused() },
        Poisoned => E::Poisoned { path: path(), cause: detail() },
        InUse => E::InUse { path: path(), holder: "another process (pid 456)".into() },
        NotAStore => E::NotAStore { path: path(), detail: "DETAIL" },
        NewerFormat => E::NewerFormat { path: path(), format: format() },
        Damaged => E::Damaged(damage()),
        Unreadable => E::Unreadable(damage()),
        AddressTaken => E::AddressTaken { path: path(), address: AT, len: AT, holder: " (libc at 0x10000)".into() },
        OutOfRange => E::OutOfRange { at: AT, len: 64, limit: 4096 },
        Forked => E::Forked { owner: 12 },
        Unsupported => E::Unsupported { path: path(), detail: detail() },
    });
    texts!(page, "log", everbyte_log::Error, {
        Media => E::Media(media()),
        Full => log(),
        TooLarge => E::TooLarge { at: AT, words: 900, most: 512 },
        BadRange => E::BadRange { start: AT, end: 2 * AT, detail: "DETAIL" },
        NotALog => E::NotALog { what: "undo journal", at: AT },
        NewerFormat => E::NewerFormat { what: "undo journal", at: AT, format: format() },
        Damaged => E::Damaged(damage()),
    });
    texts!(page, "space", everbyte_space::Error, {
        OutOfSpace => E::OutOfSpace { at: AT, bytes: 4096, source: media() },
        Damaged => E::Damaged(damage()),
        Media => E::Media(media()),
    });
    texts!(page, "cold", everbyte_cold::Error, {
        Media => E::Media(media()),
        OutOfSpace => E::OutOfSpace { at: AT, bytes: 4096, source: media() },
        Backing => E::Backing { store: path(), object: object(), path: "/disk/cold".into(), detail: detail() },
    });
    let names = everbyte_names::Damaged::new(Path::new("/pm/store"), AT, detail());
    page.push_str("\n# names\n");
    line(&mut page, "Damaged", &names);
    texts!(page, "store", everbyte_store::Error, {
        Media => E::Media(media()),
        OutOfSpace => E::OutOfSpace { at: AT, bytes: 4096, source: media() },
        NotAStore => E::NotAStore { path: path(), detail: detail() },
        Unfinished => E::Unfinished { path: path() },
        ReadOnly => E::ReadOnly { path: path() },
        NewerFormat => E::NewerFormat { path: path(), format: format() },
        Damaged => E::Damaged(damage()),
        Truncated => E::Truncated { path: path(), len: 4096, needed: AT },
        BadOption => E::BadOption { detail: detail() },
        SameIdentity => E::SameIdentity { path: path(), open: "/pm/other".into() },
        Occupied => E::Occupied { path: path() },
        NotEmpty => E::NotEmpty { path: path() },
        Attached => E::Attached { object: object(), users: " (pid 12)".into() },
        NotExclusive => E::NotExclusive { object: object() },
        NotFound => E::NotFound { name: object() },
        Exists => E::Exists { name: object() },
        BadName => E::BadName { name: object(), why: "WHY" },
        Full => E::Full { slots: 256 },
        Denied => E::Denied { object: object(), access: Access { owner: 1, group: 2, mode: 0o640 }, why: "WHY" },
        Busy => E::Busy,
        NoSpan => E::NoSpan { size: AT, max: 1 << 30 },
        SpanFull => E::SpanFull { object: object(), span: AT, asked: 4096, left: 64 },
        WrongEngine => E::WrongEngine { object: object(), found: Engine::Undo, wanted: Engine::Redo },
        Claimed => E::Claimed { object: object() },
        WrongFingerprint => E::WrongFingerprint { object: object(), found: 1, wanted: 2 },
        Open => E::Open { object: object() },
        QuotaExceeded => E::QuotaExceeded { object: object(), quota: 4, has: 4, asked: 1 },
        UserQuotaExceeded => E::UserQuotaExceeded { object: object(), user: 1000, quota: 4, has: 4, asked: 1 },
        Unshared => E::Unshared { object: object() },
        NoIds => E::NoIds { path: path() },
        Backing => E::Backing { store: path(), object: object(), path: "/disk/cold".into(), detail: detail() },
        BadRange => E::BadRange { object: object(), at: AT, len: 64 },
    });
    texts!(page, "heap", everbyte_heap::Error, {
        Store => E::Store(store()),
        Media => E::Media(media()),
        NotABlock => E::NotABlock { at: AT, object: object(), detail: "DETAIL" },
        NotAllocated => E::NotAllocated { at: AT, object: object() },
        BeingFreed => E::BeingFreed { at: AT, object: object() },
        NotFree => E::NotFree { at: AT, object: object() },
        TooLarge => E::TooLarge { size: 1 << 40, object: object(), span: AT },
        BadDestination => E::BadDestination { at: AT, object: object() },
        BadOp => E::BadOp { op: 7, object: object(), detail: "DETAIL" },
        NoHeap => heap(),
        NewerFormat => E::NewerFormat { object: object(), format: format() },
        Damaged => E::Damaged(damage()),
    });
    texts!(page, "tx", everbyte_tx::Error, {
        Heap => E::Heap(heap()),
        Store => E::Store(store()),
        Log => E::Log(log()),
        Media => E::Media(media()),
        NoLane => E::NoLane { object: object() },
        NewerFormat => E::NewerFormat { object: object(), format: format() },
        OlderFormat => E::OlderFormat { object: object(), format: older() },
        Damaged => E::Damaged(damage()),
        BadRange => E::BadRange { at: AT, len: 64, object: object() },
        Conflict => tx(),
        TooLong => E::TooLong { object: object(), most: 1024 },
        TimestampsExhausted => E::TimestampsExhausted { object: object() },
        Poisoned => E::Poisoned { object: object() },
    });
    texts!(page, "kv", everbyte_kv::Error, {
        Media => E::Media(media().into()),
        Heap => E::Heap(heap().into()),
        Store => E::Store(store().into()),
        Damaged => E::Damaged(damage()),
        KeyTooLong => E::KeyTooLong { len: 70_000, max: 65_535 },
        ValueTooLong => E::ValueTooLong { len: 1 << 33, max: 1 << 32 },
        Doomed => E::Doomed,
        NoSavepoint => E::NoSavepoint,
        OtherType => E::OtherType {
            name: "users".into(),
            detail: Box::new(everbyte_kv::OtherTypeDetail {
                at: "value.age".into(),
                expected: "`u32`".into(),
                found: "`u64`".into(),
            }),
        },
        Untyped => E::Untyped { name: "users".into() },
        Undescribed => E::Undescribed {
            name: "users".into(),
            error: everbyte_kv::DecodeError { at: 9, detail: "an array of elements without bytes" },
        },
        Undecodable => E::Undecodable {
            part: "value",
            error: everbyte_kv::DecodeError { at: 0, detail: "a `bool` that is neither 0 nor 1" },
        },
        SavepointsExhausted => E::SavepointsExhausted { max: 65_535 },
        NoTable => E::NoTable { object: object().to_string(), name: "stock".into() },
        TableExists => E::TableExists { object: object().to_string(), name: "stock".into() },
        TableName => E::TableName { len: 0, max: 255 },
        TableGone => E::TableGone { name: "stock".into() },
        OtherStore => E::OtherStore { name: "stock".into() },
        Expired => E::Expired { version: everbyte_kv::Version::new(17) },
        Unpublished => E::Unpublished { object: object(), detail: "its writer is opening it; try again" },
        Conflict => E::Conflict { table: "stock".into(), key: b"apples".to_vec() },
        CounterOverflow => E::CounterOverflow { table: String::new(), key: b"visits".to_vec() },
        NotACounter => E::NotACounter { table: "stock".into(), key: b"apples".to_vec(), len: 3 },
        NoVersion => E::NoVersion { object: object().to_string(), name: "monday".into() },
        VersionExists => E::VersionExists { object: object().to_string(), name: "monday".into() },
        VersionName => E::VersionName { len: 0, max: 255 },
        VersionReserved => E::VersionReserved { name: "server/import".into() },
        Unsorted => E::Unsorted { key: b"apples".to_vec(), last: b"pears".to_vec() },
        RangeNotEmpty => E::RangeNotEmpty { key: b"apples".to_vec() },
        TablesExhausted => E::TablesExhausted { max: 1_048_559 },
        OwnBatch => E::OwnBatch,
        ReadOnly => E::ReadOnly { object: object().to_string() },
        OtherTree => E::OtherTree,
        NewerFormat => E::NewerFormat { format: format() },
        VersionsExhausted => E::VersionsExhausted,
        NotADump => E::NotADump { detail: "DETAIL" },
        NewerDump => E::NewerDump { format: format() },
        DumpDamaged => E::DumpDamaged(damage()),
        DumpIo => E::DumpIo { action: "write", source: refused() },
    });
    texts!(page, "hkv", everbyte_hkv::Error, {
        Tx => E::Tx(tx()),
        Heap => E::Heap(heap()),
        Store => E::Store(store()),
        Media => E::Media(media()),
        NewerFormat => E::NewerFormat { object: object(), format: format() },
        OldFormat => E::OldFormat { object: object(), format: older() },
        Damaged => E::Damaged(damage()),
        TooLarge => E::TooLarge { len: 1 << 33 },
    });
    let ino = || everbyte_fs::Ino(77);
    texts!(page, "fs", everbyte_fs::Error, {
        Store => E::Store(store()),
        Media => E::Media(media()),
        Log => E::Log(log()),
        NewerFormat => E::NewerFormat { volume: object(), format: format() },
        OldFormat => E::OldFormat { volume: object(), format: older() },
        Damaged => E::Damaged(damage()),
        BadOption => E::BadOption { detail: detail() },
        NotFound => E::NotFound,
        Exists => E::Exists,
        NotADirectory => E::NotADirectory { ino: ino() },
        IsADirectory => E::IsADirectory { ino: ino() },
        NotAFile => E::NotAFile { ino: ino() },
        NotEmpty => E::NotEmpty { ino: ino() },
        BadName => E::BadName,
        NameTooLong => E::NameTooLong { len: 256 },
        TooLarge => E::TooLarge { len: 1 << 50, max: 1 << 48 },
        TooManyLinks => E::TooManyLinks { ino: ino(), max: 1 << 31 },
        Unaligned => E::Unaligned { at: 100, len: 4096 },
        Overlap => E::Overlap { ino: ino() },
        NoAttribute => E::NoAttribute { ino: ino() },
        ReadOnly => E::ReadOnly { ino: ino() },
        Loop => E::Loop { ino: ino() },
        Stale => E::Stale { ino: ino() },
        InUse => E::InUse { volume: object() },
        NoSpace => E::NoSpace { volume: object(), cause: store().into() },
        NoInodes => E::NoInodes { volume: object() },
        Mapped => E::Mapped { ino: ino() },
        Outside => E::Outside { at: AT, len: 64, end: 4096 },
        Quota => E::Quota { volume: object(), kind: everbyte_fs::QuotaKind::User, id: 1000, limit: "bytes" },
        OtherProject => E::OtherProject { ino: ino(), project: 3 },
        SizeReached => E::SizeReached { volume: object(), size: AT },
    });
    texts!(page, "mnemosyne", everbyte_mnemosyne::Error, {
        Heap => E::Heap(heap()),
        Store => E::Store(store()),
        Tx => E::Tx(tx()),
        Log => E::Log(log()),
        Media => E::Media(media()),
        Changed => E::Changed { object: object(), detail: detail() },
        Unfit => E::Unfit { object: object(), detail: detail() },
        BadTarget => E::BadTarget { object: object(), at: AT },
        NewerFormat => E::NewerFormat { object: object(), format: format() },
        Damaged => E::Damaged(damage()),
    });
    texts!(page, "tx: transactions", everbyte_tx::TxError<everbyte_store::Error>, {
        Aborted => E::Aborted(store()),
        Doomed => E::Doomed,
        Engine => E::Engine(tx()),
    });
    texts!(page, "object", everbyte_object::Error, {
        Store => E::Store(store()),
        UnreadableElsewhere => E::UnreadableElsewhere,
        Tx => E::Tx(tx()),
        Bound => E::Bound { pool: "Bank", open: object() },
        Closed => E::Closed { pool: "Bank" },
        NotTyped => E::NotTyped { object: object(), detail: "DETAIL" },
        WrongType => E::WrongType { object: object(), difference: detail() },
        OlderVersion => E::OlderVersion { object: object(), steps: "STEPS".into() },
        NewerVersion => E::NewerVersion { object: object(), name: "Account".into(), found: 3, known: 2 },
        NoMigration => E::NoMigration { object: object(), difference: detail() },
        Circle => E::Circle { object: object(), at: AT },
        NewerFormat => E::NewerFormat { object: object(), format: format() },
        Damaged => E::Damaged(damage()),
        Opaque => E::Opaque { object: object(), of: "Account".into(), at: AT.into() },
        Dump => E::Dump { object: object(), line: 7, detail: detail() },
        Input => E::Input { object: object(), source: refused() },
        Output => E::Output { object: object(), source: refused() },
        Unrepairable => E::Unrepairable(damage()),
        Changed => E::Changed { object: object() },
        Contended => E::Contended { pool: object() },
        Busy => E::Busy { pool: "Bank" },
        Panicked => E::Panicked { message: "MESSAGE".into() },
        Doomed => E::Doomed,
    });
    texts!(page, "broker", everbyte_broker::Error, {
        Store => E::Store(store()),
        Domains => E::Domains { said: detail(), source: Box::new(E::Media(media())) },
        Media => E::Media(media()),
        Io => E::Io { action: "make it", path: path(), source: refused() },
        Unsafe => E::Unsafe { path: path(), detail: detail() },
        NoBroker => E::NoBroker { path: path(), source: refused() },
        Refused => E::Refused { errno: 13, said: detail() },
        Garbled => E::Garbled { path: path() },
    });
    texts!(page, "backup", everbyte_backup::Error, {
        Store => E::Store(store()),
        Media => E::Media(media()),
        Io => E::Io { action: "create", path: path(), source: refused() },
        NotABackup => E::NotABackup { path: path(), detail: detail() },
        NewerFormat => E::NewerFormat { path: path(), format: Format::new(9_u32, 1_u32) },
        Damaged => E::Damaged(Damage::at(AT, detail()).of_file(path()).into()),
        WrongParent => E::WrongParent { path: path(), detail: detail() },
        Refused => E::Refused { path: path(), detail: detail() },
        Busy => E::Busy { path: path(), detail: detail() },
    });
    texts!(page, "server imports", everbyte_server::ImportFault, {
        Read => E::Read { name: "dump.rdb".into(), offset: AT, source: io::ErrorKind::PermissionDenied.into() },
        Damaged => E::Damaged { name: "dump.rdb".into(), offset: AT, detail: detail() },
        Unsupported => E::Unsupported { name: "dump.rdb".into(), offset: AT, detail: detail() },
        Exists => E::Exists { database: 3, key: b"key".to_vec() },
        NotEmpty => E::NotEmpty,
        Mixture => E::Mixture,
        Refused => E::Refused {
            name: "appendonly.aof".into(),
            offset: AT,
            command: b"EVAL".to_vec(),
            reply: b"ERR unknown command".to_vec(),
        },
        Connection => E::Connection {
            address: "127.0.0.1:6379".into(),
            action: "connect",
            source: io::ErrorKind::ConnectionRefused.into(),
        },
        Answer => E::Answer { address: "127.0.0.1:6379".into(), request: "PING", reply: b"NOAUTH".to_vec() },
        Open => E::Open { source: everbyte_server::Error::Settler },
        Store => E::Store { source: everbyte_kv::Error::KeyTooLong { len: 20 << 20, max: 16 << 20 } },
        Disturbed => E::Disturbed,
        Stopped => E::Stopped,
    });
    texts!(page, "server exports", everbyte_server::ExportError, {
        Write => E::Write(io::ErrorKind::StorageFull.into()),
        Open => E::Open(everbyte_server::Error::Settler),
        Store => E::Store(everbyte_kv::Error::KeyTooLong { len: 20 << 20, max: 16 << 20 }),
        Mixture => E::Mixture,
    });
    texts!(page, "server", everbyte_server::Error, {
        Listen => E::Listen { address: "127.0.0.1:6380".into(), source: io::Error::from(io::ErrorKind::AddrInUse) },
        Exposed => E::Exposed { address: "0.0.0.0:6380".into() },
        Importing => E::Importing,
        Served => E::Served,
        Tls => E::Tls { text: "TLS: the private key server.key: No such file or directory".into() },
        Users => E::Users { text: "Error loading ACLs, opening file 'users.acl': No such file or directory".into() },
        System => E::System { action: "wait for readiness", source: refused() },
        Open => E::Open { source: everbyte_kv::Error::Doomed },
        Layout => E::Layout { format: everbyte_media::Format::new(2_u64, 1_u64) },
        Store => E::Store { source: everbyte_kv::Error::Doomed },
        Settler => E::Settler,
        Loop => E::Loop,
    });
    texts!(page, "object: transactions", everbyte_object::TryError<everbyte_store::Error>, {
        Aborted => E::Aborted(store()),
        Failed => E::Failed(everbyte_object::Error::Doomed),
    });
    texts!(page, open "everbyte: merging", everbyte::MergeError, {
        Store => E::Store(store()),
        Engine => E::Engine(everbyte::EngineError::new(store())),
        Taken => E::Taken { source_path: path(), name: object(), target: "b".into(), by: "BY" },
        Present => E::Present { source_path: path(), name: object(), target: "b".into() },
        Unknown => E::Unknown { source_path: path(), name: object(), engine: Engine::None },
        Absent => E::Absent { name: object() },
    });
    texts!(page, "bridge", everbyte_bridge::Error, {
        Loader => E::Loader { detail: "libstock.so: cannot open shared object file".into() },
        NoBridge => E::NoBridge { path: "libstock.so".into() },
        Description => E::Description { line: 2, detail: "there is no line `library`".into() },
        Header => E::Header { place: "counter::add".into(), detail: "`i256` has no form in C++".into() },
    });
    writeln!(page, "\n# everbyte: engines").unwrap();
    line(&mut page, "EngineError", &everbyte::EngineError::new(store()));
    page
}

#[test]
fn every_error_text_is_in_the_list() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/errors.txt");
    let page = page();
    if std::env::var_os("EVERBYTE_REWRITE").is_some_and(|value| value == "1") {
        std::fs::write(file, page).unwrap();
        return;
    }
    let listed = std::fs::read_to_string(file).unwrap_or_default();
    let differs = page.lines().zip(listed.lines()).find(|(now, then)| now != then);
    assert!(
        page == listed,
        "{file} differs, first in {differs:?}; if the new text is meant, run `EVERBYTE_REWRITE=1 cargo test -p \
         everbyte-suite --test error_texts` and commit the file"
    );
}
