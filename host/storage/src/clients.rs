//! The HTTP clients of a bucket, built from its location, the options and the
//! environment.

use std::time::Duration;

use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::client::{HttpClient, HttpConnector as _};
use object_store::{BackoffConfig, ClientOptions, RetryConfig};
use url::{Host, Url};

use crate::answer::line;
use crate::wire::Connector;
use crate::{S3Location, StorageError, StoreOptions};

/// Clients of one bucket, which differ in what they retry.
pub(crate) struct Clients {
    /// Where the bucket is served, for people.
    pub(crate) endpoint: String,
    /// Bulk deletes, never retried below us: the caller decides.
    pub(crate) bulk: AmazonS3,
    /// Deletes of single objects, likewise.
    pub(crate) single: AmazonS3,
    /// Reads, retried inside the time of one request.
    pub(crate) reader: AmazonS3,
    /// Questions that the library does not know, signed beforehand.
    pub(crate) plain: HttpClient,
}

impl Clients {
    pub(crate) fn build(
        location: &S3Location,
        options: &StoreOptions,
    ) -> Result<Self, StorageError> {
        install_tls_provider();
        let base = AmazonS3Builder::from_env();
        let endpoint = match &location.endpoint {
            Some(url) => Some(url.clone()),
            None => base
                .get_config_value(&AmazonS3ConfigKey::Endpoint)
                .and_then(|text| Url::parse(&text).ok()),
        };
        let failed = |error: object_store::Error| StorageError::Failed {
            place: format!("bucket `{}`", location.bucket),
            reason: line(&error.to_string()),
        };
        let connector = Connector {
            loopback: endpoint.as_ref().is_some_and(is_loopback),
            connect_timeout: options.connect_timeout,
        };
        let client_options = ClientOptions::new()
            .with_allow_http(endpoint.as_ref().is_some_and(|url| url.scheme() == "http"))
            .with_connect_timeout(options.connect_timeout)
            .with_timeout(options.request_timeout);
        let plain = connector.connect(&client_options).map_err(failed)?;
        let mut builder = base
            .with_bucket_name(&location.bucket)
            .with_disable_bulk_delete(false)
            .with_http_connector(connector)
            .with_client_options(client_options);
        if let Some(region) = &location.region {
            builder = builder.with_region(region);
        }
        if let Some(credentials) = &options.credentials {
            builder = builder
                .with_access_key_id(&credentials.access_key_id)
                .with_secret_access_key(&credentials.secret_access_key);
            if let Some(token) = &credentials.session_token {
                builder = builder.with_token(token);
            }
        }
        let mut shown = "AWS".to_owned();
        if let Some(url) = &endpoint {
            shown = url.as_str().trim_end_matches('/').to_owned();
            builder = builder.with_endpoint(&shown);
        }
        if let Some(url) = &location.endpoint {
            let hosted = hosted_endpoint(url, location);
            builder = builder.with_virtual_hosted_style_request(hosted.is_some());
            if let Some(hosted) = hosted {
                builder = builder.with_endpoint(hosted);
            }
        } else if location.path_style {
            builder = builder.with_virtual_hosted_style_request(false);
        }
        let never = retries(0, options.request_timeout);
        let bulk = builder
            .clone()
            .with_retry(never.clone())
            .build()
            .map_err(failed)?;
        let builder = builder.with_credentials(bulk.credentials().clone());
        let single = builder
            .clone()
            .with_disable_bulk_delete(true)
            .with_retry(never)
            .build()
            .map_err(failed)?;
        let reader = builder
            .with_retry(retries(options.read_retries, options.request_timeout))
            .build()
            .map_err(failed)?;
        Ok(Self {
            endpoint: shown,
            bulk,
            single,
            reader,
            plain,
        })
    }
}

fn retries(max_retries: usize, retry_timeout: Duration) -> RetryConfig {
    RetryConfig {
        backoff: BackoffConfig {
            init_backoff: Duration::from_millis(100),
            max_backoff: Duration::from_secs(2),
            base: 2.0,
        },
        max_retries,
        retry_timeout,
    }
}

/// The endpoint with the bucket in its host name, as the library takes it; none
/// for path style, and where the host is an address.
fn hosted_endpoint(url: &Url, location: &S3Location) -> Option<String> {
    let Some(Host::Domain(host)) = url.host() else {
        return None;
    };
    if location.path_style {
        return None;
    }
    let mut url = url.clone();
    if !host.starts_with(&format!("{}.", location.bucket)) {
        let host = format!("{}.{host}", location.bucket);
        url.set_host(Some(&host)).ok()?;
    }
    Some(url.as_str().trim_end_matches('/').to_owned())
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// TLS without a provider of its own asks for the process's default.
fn install_tls_provider() {
    // A second installation is refused, which is as well.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StorageUri;

    fn hosted(text: &str) -> Option<String> {
        let uri: StorageUri = text.parse().expect("a URI");
        let location = uri.s3().expect("S3");
        hosted_endpoint(location.endpoint.as_ref().expect("an endpoint"), location)
    }

    #[test]
    fn the_bucket_goes_into_the_host_unless_it_cannot() {
        assert_eq!(
            hosted("s3://b?endpoint=https://s3.example.com:8443").as_deref(),
            Some("https://b.s3.example.com:8443")
        );
        assert_eq!(
            hosted("s3://b?endpoint=https://b.s3.example.com").as_deref(),
            Some("https://b.s3.example.com")
        );
        assert_eq!(
            hosted("s3://b?endpoint=https://s3.example.com&pathStyle=true"),
            None
        );
        assert_eq!(hosted("s3://b?endpoint=http://127.0.0.1:9000"), None);
    }

    #[test]
    fn loopback_is_recognised() {
        for (url, loopback) in [
            ("http://127.0.0.1:9000", true),
            ("http://[::1]:9000", true),
            ("http://localhost", true),
            ("http://minio.localhost:1", true),
            ("http://10.0.0.1", false),
            ("https://localhost.example.com", false),
        ] {
            assert_eq!(
                is_loopback(&Url::parse(url).expect("a URL")),
                loopback,
                "{url}"
            );
        }
    }
}
