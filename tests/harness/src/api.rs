//! The API server over plain HTTP, through `kubectl proxy`: starting kubectl for each poll costs some
//! 0.1 s of CPU, and a request here a millisecond.

use std::collections::BTreeMap;
use std::io::BufRead as _;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::builder::free_port;
use crate::part::Part;
use crate::programs::CONTROL_PLANE;
use crate::{ControlPlane, http, wait_until};

/// `kubectl proxy` as one user, until it is dropped.
#[derive(Debug)]
pub struct Proxy {
    pub(crate) part: Part,
    address: SocketAddr,
}

impl Proxy {
    pub(crate) fn start(name: &str, kubeconfig: &Path, logs: &Path) -> Result<Self> {
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()?));
        let args = vec![
            "proxy".to_owned(),
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--port={}", address.port()),
        ];
        let kubectl = CONTROL_PLANE.find("kubectl")?;
        let part = Part::start(name, &kubectl, args, Vec::new(), logs)?;
        Ok(Self { part, address })
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Sends a request with a body, and returns the code and the body of the response.
    ///
    /// # Errors
    /// Returns an error if there is no response.
    pub fn send(&self, method: &str, path: &str, content_type: &str, body: &str) -> Result<(u16, String)> {
        http::send_body(self.address, method, path, (content_type, body))
    }
}

impl ControlPlane {
    /// Starts a `kubectl proxy` with the credentials of `kubeconfig`, for requests of another user than the administrator.
    ///
    /// # Errors
    /// Returns an error if it does not start.
    pub fn proxy_of(&self, kubeconfig: &Path) -> Result<Proxy> {
        let proxy = Proxy::start("kubectl-proxy-of-another", kubeconfig, &self.logs())?;
        wait_until("kubectl proxy of another user", || Ok(http::get(proxy.address, "/version").ok()))?;
        Ok(proxy)
    }

    /// Returns the body of the API server's response to a GET of `path`.
    ///
    /// # Errors
    /// Returns an error if the response is not 200.
    pub fn get(&self, path: &str) -> Result<String> {
        let (code, body) = http::get(self.proxy.address, path)?;
        if code != 200 {
            bail!("GET {path}: {code}: {body}");
        }
        Ok(body)
    }

    /// Deletes the object `path`.
    pub(crate) fn delete(&self, path: &str) -> Result<()> {
        let (code, body) = http::request(self.proxy.address, "DELETE", path)?;
        if code != 200 {
            bail!("DELETE {path}: {code}: {body}");
        }
        Ok(())
    }

    /// Opens a watch, whose events are objects with `type` and `object`. It ends with the API
    /// server's connection, and with the control plane at the latest.
    ///
    /// # Errors
    /// Returns an error if the response is not 200.
    pub fn watch(&self, path: &str) -> Result<impl Iterator<Item = Value> + Send + use<>> {
        let response = http::open(self.proxy.address, "GET", path)?;
        if response.code != 200 {
            bail!("GET {path}: {}", response.code);
        }
        let lines = response.stream.lines().map_while(Result::ok);
        Ok(lines.map_while(|line| serde_json::from_str(&line).ok()))
    }

    /// Sends a request with a body, and returns the code and the body of the response.
    ///
    /// # Errors
    /// Returns an error if there is no response.
    pub fn send(&self, method: &str, path: &str, content_type: &str, body: &str) -> Result<(u16, String)> {
        self.sender()(method, path, content_type, body)
    }

    /// Returns a function that does the same, for another thread.
    pub fn sender(&self) -> impl Fn(&str, &str, &str, &str) -> Result<(u16, String)> + Clone + Send + use<> {
        let address = self.proxy.address;
        move |method, path, content_type, body| http::send_body(address, method, path, (content_type, body))
    }

    /// Counts the requests that kube-apiserver has completed, by verb, resource and subresource.
    ///
    /// # Errors
    /// Returns an error if its metrics cannot be read.
    pub fn request_counts(&self) -> Result<BTreeMap<(String, String, String), u64>> {
        let counts = self.request_counts_by(["verb", "resource", "subresource"])?;
        Ok(counts.into_iter().map(|(labels, count)| (labels.into(), count)).collect())
    }

    /// Counts the requests that kube-apiserver has completed since it started, by these labels of its metric. The
    /// count excludes dry runs, of which the controller sends one a minute.
    ///
    /// # Errors
    /// Returns an error if its metrics cannot be read.
    pub fn request_counts_by<const N: usize>(&self, names: [&str; N]) -> Result<BTreeMap<[String; N], u64>> {
        let metrics = self.get("/metrics")?;
        let mut counts = BTreeMap::new();
        for line in metrics.lines() {
            let Some(series) = line.strip_prefix("apiserver_request_total{") else { continue };
            let (labels, value) = series.rsplit_once("} ").context("a series with a value")?;
            let labels = format!(",{labels}");
            if labels.contains(",dry_run=\"All\"") {
                continue;
            }
            let label = |name: &str| {
                let (_, rest) = labels.split_once(&format!(",{name}=\""))?;
                rest.split('"').next().map(str::to_owned)
            };
            let key = names.map(|name| label(name).unwrap_or_default());
            let value: u64 = value.trim().parse().with_context(|| line.to_owned())?;
            *counts.entry(key).or_default() += value;
        }
        Ok(counts)
    }

    /// Counts the requests of one kind that kube-apiserver has completed.
    ///
    /// # Errors
    /// Returns an error if its metrics cannot be read.
    pub fn request_count(&self, verb: &str, resource: &str, subresource: &str) -> Result<u64> {
        let key = (verb.to_owned(), resource.to_owned(), subresource.to_owned());
        Ok(self.request_counts()?.get(&key).copied().unwrap_or_default())
    }
}
