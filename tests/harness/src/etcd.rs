//! Kills, compacts, reads and writes etcd, through its JSON gateway, which needs no client library.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use anyhow::{Context as _, Result, ensure};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use crate::http;
use crate::part::Part;
use crate::wait_until;

/// The API server's objects by their keys, in the encoding of the gateway.
pub(crate) type Objects = BTreeMap<String, String>;

/// Each transaction has at most this number of operations, by default.
const MAX_OPERATIONS: usize = 128;

/// etcd, and where it listens.
#[derive(Debug)]
pub(crate) struct Etcd {
    pub(crate) part: Part,
    pub(crate) address: SocketAddr,
}

impl Etcd {
    /// Restarts etcd after it was killed, and waits until it serves.
    pub(crate) fn restart(&mut self) -> Result<()> {
        self.part.restart()?;
        wait_until("etcd to serve again", || {
            if let Err(ended) = self.part.process.check_running() {
                return Ok(Some(Err(ended)));
            }
            self.revision().map(|_| Some(Ok(())))
        })?
    }

    /// Compacts all revisions except the current one.
    pub(crate) fn compact(&self) -> Result<()> {
        let revision = self.revision()?;
        self.request("/v3/kv/compaction", &json!({"revision": revision, "physical": true}))?;
        Ok(())
    }

    /// Compacts up to a revision. An earlier compaction beyond it is success too.
    pub(crate) fn compact_to(&self, revision: &str) -> Result<()> {
        let body = json!({"revision": revision}).to_string();
        let path = "/v3/kv/compaction";
        let (code, answer) = self.send(path, &body)?;
        ensure!(code == 200 || answer.contains("has been compacted"), "POST {path}: {answer}");
        Ok(())
    }

    /// Returns all objects of the API server.
    pub(crate) fn objects(&self) -> Result<Objects> {
        // All keys with this prefix: until the next key that has not.
        let range = json!({"key": encode("/registry/"), "range_end": encode("/registry0")});
        let mut found = self.request("/v3/kv/range", &range)?;
        let Value::Array(pairs) = found["kvs"].take() else { return Ok(Objects::new()) };
        let text = |value: &Value| value.as_str().map(str::to_owned).unwrap_or_default();
        pairs.iter().map(|pair| Ok((decode(&text(&pair["key"]))?, text(&pair["value"])))).collect()
    }

    /// Deletes keys.
    pub(crate) fn delete(&self, keys: &[&String]) -> Result<()> {
        let operations: Vec<_> = keys.iter().map(|key| json!({"requestDeleteRange": {"key": encode(key)}})).collect();
        operations
            .chunks(MAX_OPERATIONS)
            .try_for_each(|some| self.request("/v3/kv/txn", &json!({"success": some})).map(drop))
    }

    /// Writes objects. Each of them may be large, but not all together.
    pub(crate) fn put(&self, objects: &[(&String, &String)]) -> Result<()> {
        objects.iter().try_for_each(|(key, value)| {
            self.request("/v3/kv/put", &json!({"key": encode(key), "value": value})).map(drop)
        })
    }

    fn revision(&self) -> Result<Value> {
        // The key is a NUL, which does not exist.
        let mut found = self.request("/v3/kv/range", &json!({"key": "AA=="}))?;
        Ok(found["header"]["revision"].take())
    }

    fn request(&self, path: &str, body: &Value) -> Result<Value> {
        let (code, body) = self.send(path, &body.to_string())?;
        ensure!(code == 200, "POST {path}: {code}: {body}");
        serde_json::from_str(&body).with_context(|| format!("POST {path}: {body}"))
    }

    fn send(&self, path: &str, body: &str) -> Result<(u16, String)> {
        http::send_body(self.address, "POST", path, ("application/json", body))
    }
}

pub(crate) fn encode(key: &str) -> String {
    BASE64_STANDARD.encode(key)
}

fn decode(key: &str) -> Result<String> {
    Ok(String::from_utf8(BASE64_STANDARD.decode(key)?)?)
}
