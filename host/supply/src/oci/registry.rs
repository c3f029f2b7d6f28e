//! Pull and push.

use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use aedile_clock::SharedClock;
use bytes::Bytes;
use http::HeaderValue;
use oci_client::Client;
use oci_client::client::{ClientConfig, ClientProtocol};
use oci_client::secrets::RegistryAuth;
use tokio::io::AsyncWrite;

use super::{Credentials, OciReference, Package, fault, layout};
use crate::{SupplyError, check_signature_text, sha256_hex};

/// How a registry is reached.
#[derive(Clone, Debug)]
pub struct RegistryOptions {
    /// Speak plain HTTP instead of TLS. For a registry on this machine.
    pub plain_http: bool,
    /// Who we are; with none, what `docker_config` says, else nobody.
    pub credentials: Option<Credentials>,
    /// The file that `docker login` writes.
    pub docker_config: Option<PathBuf>,
    /// The largest module that is pulled, in bytes.
    pub max_module: u64,
    /// How long a connection may take to be made.
    pub connect_timeout: Duration,
    /// How long a pull or push may take as a whole.
    pub timeout: Duration,
}

impl Default for RegistryOptions {
    fn default() -> Self {
        Self {
            plain_http: false,
            credentials: None,
            docker_config: None,
            max_module: 32 * 1024 * 1024,
            connect_timeout: Duration::from_secs(10),
            timeout: Duration::from_secs(120),
        }
    }
}

/// A client of registries.
pub struct Registry {
    client: Client,
    options: RegistryOptions,
    clock: SharedClock,
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Registry")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

/// A module as it was pulled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pulled {
    /// Where it lies, by digest: the same content for ever.
    pub reference: OciReference,
    /// Its bytes.
    pub module: Vec<u8>,
    /// Their SHA-256 in hex.
    pub digest: String,
    /// The minisign signature that lies with it, if one does. Well formed, not
    /// verified.
    pub signature: Option<String>,
    /// What the artifact calls itself. The module's manifest decides.
    pub title: Option<String>,
    /// The version that it gives itself. The module's manifest decides.
    pub version: Option<String>,
}

impl Registry {
    /// A client.
    ///
    /// # Errors
    /// If no client can be made on this machine, as without root certificates.
    pub fn new(options: RegistryOptions, clock: SharedClock) -> Result<Self, SupplyError> {
        // A second installation is refused, which is as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let protocol = if options.plain_http {
            ClientProtocol::Http
        } else {
            ClientProtocol::Https
        };
        let config = ClientConfig {
            protocol,
            // Some registries refuse chunks; a module fits into one request.
            use_monolithic_push: true,
            platform_resolver: None,
            connect_timeout: Some(options.connect_timeout),
            read_timeout: Some(options.timeout),
            user_agent: concat!("aedile/", env!("CARGO_PKG_VERSION")),
            ..ClientConfig::default()
        };
        let client = Client::try_from(config).map_err(|error| SupplyError::BadAnswer {
            registry: "(any)".to_owned(),
            reason: format!("no client can be made: {error}"),
        })?;
        Ok(Self {
            client,
            options,
            clock,
        })
    }

    /// Pull a module. A tag is resolved here, once: what comes back names the
    /// content by digest.
    ///
    /// # Errors
    /// If the registry cannot be reached or refuses, has nothing there, has
    /// something that is not laid out as a Wasm module, or gives bytes that are
    /// not those of the digest.
    pub async fn pull(&self, reference: &OciReference) -> Result<Pulled, SupplyError> {
        self.within(reference, self.do_pull(reference)).await
    }

    async fn do_pull(&self, reference: &OciReference) -> Result<Pulled, SupplyError> {
        let failed = |error| fault::of(&error, reference);
        let auth = self.auth(reference)?;
        let (manifest, _) = self
            .client
            .pull_manifest_raw(reference.inner(), &auth, &layout::ACCEPTED)
            .await
            .map_err(failed)?;
        let pinned = reference.pinned(&format!("sha256:{}", sha256_hex(&manifest)));
        if let Some(asked) = reference
            .digest()
            .filter(|asked| Some(*asked) != pinned.digest())
        {
            return Err(SupplyError::WrongDigest {
                place: format!("the manifest that {} gives", reference.registry()),
                found: pinned.digest().unwrap_or_default().to_owned(),
                expected: asked.to_owned(),
            });
        }
        let described = layout::read(&manifest, &reference.to_string())?;
        let limit = self.options.max_module;
        if described.size > limit {
            return Err(SupplyError::TooLarge {
                place: format!("the module at {reference}"),
                size: described.size,
                limit,
            });
        }
        let mut module = Bounded::new(described.size);
        let layer = described.digest.as_str();
        let pulled = self.client.pull_blob(reference.inner(), layer, &mut module);
        let pulled = pulled.await;
        if module.exceeded {
            return Err(SupplyError::BadAnswer {
                registry: reference.registry().to_owned(),
                reason: format!(
                    "it sends more for {layer} than the {} bytes that its manifest names",
                    described.size
                ),
            });
        }
        pulled.map_err(failed)?;
        let digest = sha256_hex(&module.bytes);
        if format!("sha256:{digest}") != described.digest {
            return Err(SupplyError::WrongDigest {
                place: format!("the module at {reference}"),
                found: format!("sha256:{digest}"),
                expected: described.digest,
            });
        }
        if let Some(signature) = &described.signature {
            check_signature_text(signature, &format!("the signature at {reference}"))?;
        }
        Ok(Pulled {
            reference: pinned,
            module: module.bytes,
            digest,
            signature: described.signature,
            title: described.title,
            version: described.version,
        })
    }

    /// Push a module under a tag; what comes back names it by digest. What the
    /// registry has of it already is not sent again.
    ///
    /// # Errors
    /// If the reference names no tag or a digest, or the registry cannot be
    /// reached, refuses, or stores something else.
    pub async fn push(
        &self,
        reference: &OciReference,
        package: &Package,
    ) -> Result<OciReference, SupplyError> {
        if reference.is_pinned() || reference.tag().is_none() {
            return Err(SupplyError::BadReference {
                text: reference.to_string(),
                reason: "a push needs a tag and no digest".to_owned(),
            });
        }
        if let Some(signature) = &package.signature {
            check_signature_text(signature, "the signature to be pushed")?;
        }
        self.within(reference, self.do_push(reference, package))
            .await
    }

    async fn do_push(
        &self,
        reference: &OciReference,
        package: &Package,
    ) -> Result<OciReference, SupplyError> {
        let failed = |error| fault::of(&error, reference);
        let blobs = package.blobs()?;
        let auth = self.auth(reference)?;
        self.client
            .store_auth_if_needed(reference.inner().resolve_registry(), &auth)
            .await;
        let module = Bytes::copy_from_slice(&package.module);
        for (digest, bytes) in [
            (&blobs.module_digest, module),
            (&blobs.config_digest, Bytes::from(blobs.config)),
        ] {
            // Whoever may push and not ask sends it anew.
            let there = self.client.blob_exists(reference.inner(), digest).await;
            if !there.unwrap_or(false) {
                self.client
                    .push_blob(reference.inner(), bytes, digest)
                    .await
                    .map_err(failed)?;
            }
        }
        self.client
            .push_manifest_raw(
                reference.inner(),
                blobs.manifest,
                HeaderValue::from_static(layout::MANIFEST),
            )
            .await
            .map_err(failed)?;
        let pinned = reference.pinned(&blobs.manifest_digest);
        self.client
            .fetch_manifest_digest(pinned.inner(), &auth)
            .await
            .map_err(failed)?;
        Ok(pinned)
    }

    fn auth(&self, reference: &OciReference) -> Result<RegistryAuth, SupplyError> {
        let credentials = match (&self.options.credentials, &self.options.docker_config) {
            (Some(credentials), _) => Some(credentials.clone()),
            (None, Some(path)) => Credentials::from_docker_config(path, reference.registry())?,
            (None, None) => None,
        };
        Ok(credentials.map_or(RegistryAuth::Anonymous, Credentials::auth))
    }

    async fn within<T>(
        &self,
        reference: &OciReference,
        work: impl Future<Output = Result<T, SupplyError>>,
    ) -> Result<T, SupplyError> {
        let limit = self.options.timeout;
        self.clock
            .timeout(limit, work)
            .await
            .unwrap_or_else(|elapsed| {
                Err(SupplyError::Unavailable {
                    registry: reference.registry().to_owned(),
                    reason: elapsed.to_string(),
                })
            })
    }
}

/// Takes as many bytes as were announced and not one more.
struct Bounded {
    bytes: Vec<u8>,
    limit: u64,
    exceeded: bool,
}

impl Bounded {
    fn new(limit: u64) -> Self {
        Self {
            bytes: Vec::new(),
            limit,
            exceeded: false,
        }
    }
}

impl AsyncWrite for Bounded {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if (self.bytes.len() + bytes.len()) as u64 > self.limit {
            self.exceeded = true;
            return Poll::Ready(Err(io::Error::other("more than was announced")));
        }
        self.bytes.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
