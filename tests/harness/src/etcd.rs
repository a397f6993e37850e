//! Kills and compacts etcd, through its JSON gateway, which needs no client library.

use std::net::SocketAddr;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::http;
use crate::part::Part;
use crate::wait_until;

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
