//! Credential plugins of a kubeconfig (`users[].user.exec`), which may take seconds or open a browser.
//!
//! kube runs a plugin once for the token, and once more for each TLS configuration. Here it runs once, and again only when
//! its token expires.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::header::AUTHORIZATION;
use http::{HeaderValue, Request};
use k8s_openapi::jiff::Timestamp;
use kube::client::{AuthError, Body};
use kube::config::{AuthInfo, ExecConfig, ExecInteractiveMode};
use serde::Deserialize;
use serde_json::json;
use tokio::process::Command;
use tokio::sync::Mutex;

use super::clock;
use super::patience::Patience;

/// How long before it expires a token is replaced.
const MARGIN: Duration = Duration::from_secs(60);

/// A plugin.
pub(super) struct Plugin {
    exec: ExecConfig,
    patience: Patience,
}

/// What a plugin returned.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Credential {
    token: Option<String>,
    expiration_timestamp: Option<String>,
    client_certificate_data: Option<String>,
    client_key_data: Option<String>,
}

/// The header with a token, and when it expires.
struct Token {
    header: HeaderValue,
    expires: Option<Timestamp>,
}

impl Plugin {
    /// Takes the plugin out of the credentials, so that kube does not run it. Any other credential goes before it, as in
    /// kube.
    pub(super) fn take(auth: &mut AuthInfo, patience: Patience) -> Option<Self> {
        let exec = auth.exec.take()?;
        let has_password = auth.username.is_some() && auth.password.is_some();
        let has_other = auth.auth_provider.is_some() || auth.token.is_some() || auth.token_file.is_some();
        (!has_password && !has_other).then_some(Self { exec, patience })
    }

    /// Runs the plugin, and ends it if it takes too long.
    pub(super) async fn run(&self) -> Result<Credential, AuthError> {
        #[derive(Deserialize)]
        struct Output {
            status: Option<Credential>,
        }

        let Self { exec, patience } = self;
        let mut command = Command::new(exec.command.as_ref().ok_or(AuthError::MissingCommand)?);
        command.args(exec.args.iter().flatten()).kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let variables = exec.env.iter().flatten();
        command.envs(variables.filter_map(|variable| Some((variable.get("name")?, variable.get("value")?))));
        let interactive = exec.interactive_mode != Some(ExecInteractiveMode::Never);
        if interactive {
            command.stdin(Stdio::inherit()).stderr(Stdio::inherit());
        }
        let mut spec = json!({"interactive": interactive});
        if exec.provide_cluster_info {
            spec["cluster"] = json!(exec.cluster.as_ref().ok_or(AuthError::ExecMissingClusterInfo)?);
        }
        let info = json!({"apiVersion": exec.api_version, "kind": "ExecCredential", "spec": spec});
        command.env("KUBERNETES_EXEC_INFO", info.to_string());
        let child = command.spawn().map_err(AuthError::AuthExecStart)?;
        let ended = patience.limit(child.wait_with_output()).await;
        let ended =
            ended.map_err(|limit| AuthError::AuthExec(format!("no credentials within {}s", limit.as_secs_f64())))?;
        let out = ended.map_err(AuthError::AuthExecStart)?;
        if !out.status.success() {
            return Err(AuthError::AuthExecRun { cmd: format!("{command:?}"), out: Box::new(out) });
        }
        // As with client-go, it may be YAML.
        let output = serde_saphyr::from_slice::<Output>(&out.stdout);
        let output = output.map_err(|error| AuthError::AuthExecParse(Box::new(error)))?;
        output.status.ok_or(AuthError::ExecPluginFailed)
    }

    /// Returns what adds the token to each request, if there is one.
    pub(super) fn authorize(self, credential: &Credential) -> Result<Option<Authorize>, AuthError> {
        let Some(token) = credential.token()? else { return Ok(None) };
        Ok(Some(Authorize { plugin: Arc::new(self), token: Arc::new(Mutex::new(token)) }))
    }
}

impl Credential {
    /// Takes the client certificate and its key, if there are both, as a kubeconfig has them.
    pub(super) fn add_certificate(&self, auth: &mut AuthInfo) {
        if let (Some(certificate), Some(key)) = (&self.client_certificate_data, &self.client_key_data) {
            (auth.client_certificate, auth.client_key) = (None, None);
            auth.client_certificate_data = Some(STANDARD.encode(certificate));
            auth.client_key_data = Some(STANDARD.encode(key).into());
        }
    }

    fn token(&self) -> Result<Option<Token>, AuthError> {
        let Some(token) = &self.token else { return Ok(None) };
        let mut header = HeaderValue::from_str(&format!("Bearer {token}")).map_err(AuthError::InvalidBearerToken)?;
        header.set_sensitive(true);
        let expires = self.expiration_timestamp.as_ref().map(|time| time.parse());
        let expires = expires.transpose().map_err(AuthError::MalformedTokenExpirationDate)?;
        Ok(Some(Token { header, expires }))
    }
}

/// Adds the token of a plugin to requests.
#[derive(Clone)]
pub(super) struct Authorize {
    plugin: Arc<Plugin>,
    token: Arc<Mutex<Token>>,
}

impl Authorize {
    /// Returns the request with the token, once the plugin has replaced it if it expires.
    pub(super) fn add(&self, mut request: Request<Body>) -> BoxFuture<'static, Result<Request<Body>, AuthError>> {
        let Self { plugin, token } = self.clone();
        let authorized = async move {
            let mut token = token.lock().await;
            if token.expires.is_some_and(|expires| expires <= clock::now() + MARGIN) {
                let new = plugin.run().await?.token()?;
                *token = new.ok_or(AuthError::UnrefreshableTokenResponse)?;
            }
            request.headers_mut().insert(AUTHORIZATION, token.header.clone());
            Ok(request)
        };
        authorized.boxed()
    }
}
