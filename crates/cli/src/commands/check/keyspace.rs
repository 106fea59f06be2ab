//! The server's tables of a key-value store, in a deep check. The engine knows tables, and the
//! server what its own say; this command alone knows both.

use super::deep::Said;
use super::{is_wrong_kind, kind_name};
use crate::failure::Failure;
use crate::text::set_json;
use everbyte_kv::Kv;
use everbyte_server::{KeyspaceFinding, KeyspaceSums};
use everbyte_store::{Engine, ObjectInfo, Store};
use serde_json::json;

/// The number of findings. An object that cannot be opened has been reported by its engine.
pub(super) fn check(store: &Store, object: &ObjectInfo, said: &Said<'_>) -> Result<usize, Failure> {
    if object.engine != Engine::Cdds {
        return Ok(0);
    }
    let Ok(kv) = Kv::open(store, &object.name) else { return Ok(0) };
    let (mut wrong, mut told) = (0, Ok(()));
    let sums = everbyte_server::check(&kv, &mut |finding| {
        wrong += usize::from(is_wrong_kind(finding.kind));
        if told.is_ok() {
            told = tell(&object.name, &finding, said);
        }
    });
    told?;
    if let Some(KeyspaceSums { records, collections, elements, deadlines }) = sums {
        let name = &object.name;
        said.line(
            format!(
                "`{name}`: the server's tables: {records} records, {collections} collections of {elements} elements, {deadlines} deadlines"
            ),
            json!({
                "object": name, "records": records, "collections": collections, "elements": elements, "deadlines": deadlines,
            }),
        )?;
    }
    Ok(wrong)
}

fn tell(object: &str, finding: &KeyspaceFinding, said: &Said<'_>) -> Result<(), Failure> {
    let mut value = json!({
        "room": "server", "kind": kind_name(finding.kind), "object": object, "rule": finding.rule, "detail": finding.detail,
    });
    if let Some(fields) = value.as_object_mut() {
        if let Some(space) = finding.space {
            fields.insert("database".into(), space.into());
        }
        if let Some(key) = &finding.key {
            set_json(fields, "key", key);
        }
        if let Some(id) = finding.id {
            fields.insert("id".into(), id.into());
        }
    }
    said.line(format!("`{object}`: {finding}"), value)
}
