//! What a bucket and its service are like, asked before anything is deleted.

use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::StreamExt as _;
use object_store::ObjectStore as _;
use object_store::client::{HttpRequest, HttpRequestBody};
use object_store::path::Path;
use object_store::signer::{SignedUrlOptions, Signer as _};
use quick_xml::de::from_reader;
use reqwest::Method;
use serde::Deserialize;

use super::S3Store;
use crate::answer::{Refusal, Said, line, root};
use crate::wire::{Answer, bounded, recorded};
use crate::{Found, StoreProbe, Versioning};

/// A key of ours that nobody has: what is deleted to see whether bulk deletes
/// are known.
const NOBODYS: &str = "aedile/probe/bulk-delete";

/// The longest answer that is read.
const LIMIT: usize = 64 << 10;

/// How long a signed question may be asked.
const SIGNED_FOR: Duration = Duration::from_secs(300);

/// What is read of either setting's document.
#[derive(Debug, Deserialize)]
struct Setting {
    #[serde(rename = "Status")]
    status: Option<String>,
    #[serde(rename = "ObjectLockEnabled")]
    lock: Option<String>,
}

/// Why a question has no answer.
enum Failure {
    Refused(Refusal),
    Other(String),
}

impl Failure {
    fn text(&self) -> String {
        match self {
            Self::Refused(refusal) => refusal.text(),
            Self::Other(text) => line(text),
        }
    }
}

impl S3Store {
    pub(crate) async fn probe(&self) -> StoreProbe {
        let (versioning, object_lock) = tokio::join!(self.versioning(), self.object_lock());
        // Whoever asks says what was found; the log is not to say it twice.
        if versioning == Versioning::On {
            self.versioned.store(true, Ordering::Relaxed);
        }
        let bulk_delete = match versioning {
            // There, even the delete of nothing leaves a marker.
            Versioning::On | Versioning::Suspended => {
                Found::Unknown("not asked, as it would leave a delete marker".into())
            }
            Versioning::Off | Versioning::Unknown(_) => self.knows_bulk_deletes().await,
        };
        StoreProbe {
            bulk_delete,
            versioning,
            object_lock,
        }
    }

    async fn versioning(&self) -> Versioning {
        let asked = self.ask("versioning", "VersioningConfiguration").await;
        match asked.as_ref().map(|setting| setting.status.as_deref()) {
            Ok(None | Some("")) => Versioning::Off,
            Ok(Some("Enabled")) => Versioning::On,
            Ok(Some("Suspended")) => Versioning::Suspended,
            Ok(Some(other)) => Versioning::Unknown(line(other)),
            Err(failure) => Versioning::Unknown(failure.text()),
        }
    }

    async fn object_lock(&self) -> Found {
        match self.ask("object-lock", "ObjectLockConfiguration").await {
            Ok(setting) if setting.lock.as_deref() == Some("Enabled") => Found::Yes,
            Ok(_) => Found::No,
            Err(Failure::Refused(refusal))
                if refusal.code == "ObjectLockConfigurationNotFoundError" =>
            {
                Found::No
            }
            Err(failure) => Found::Unknown(failure.text()),
        }
    }

    /// Ask the bucket for one of its settings.
    async fn ask(&self, setting: &str, document: &str) -> Result<Setting, Failure> {
        let body = self.body_of(setting).await?;
        // A service that does not know the question may list its keys instead.
        match root(&body) {
            Some(root) if root == document => {}
            root => {
                let root = root.unwrap_or_else(|| "something else".into());
                return Err(Failure::Other(format!(
                    "the answer is {root}, not {document}"
                )));
            }
        }
        from_reader(&body[..]).map_err(|error| Failure::Other(error.to_string()))
    }

    async fn body_of(&self, setting: &str) -> Result<Vec<u8>, Failure> {
        let question = async {
            let options = SignedUrlOptions::new().with_query([(setting, "")]);
            let url = self
                .clients
                .reader
                .signed_url_opts(Method::GET, &Path::default(), SIGNED_FOR, &options)
                .await
                .map_err(|error| error.to_string())?;
            let mut request = HttpRequest::new(HttpRequestBody::empty());
            *request.uri_mut() = url
                .as_str()
                .parse()
                .map_err(|_| "its address is no URI".to_owned())?;
            let response = self
                .clients
                .plain
                .execute(request)
                .await
                .map_err(|error| error.to_string())?;
            bounded(response.into_body(), LIMIT)
                .await
                .map_err(|error| error.to_string())
        };
        let (result, record) = recorded(self.clock.timeout(self.request_timeout, question)).await;
        let result = result.map_err(|elapsed| Failure::Other(elapsed.to_string()))?;
        match record.answer {
            Some(Answer::Refused(refusal)) => Err(Failure::Refused(refusal)),
            Some(Answer::Broken(text)) => Err(Failure::Other(text)),
            _ => result.map(Into::into).map_err(Failure::Other),
        }
    }

    async fn knows_bulk_deletes(&self) -> Found {
        let path = Path::from(NOBODYS);
        let request = self
            .clients
            .bulk
            .delete_stream(futures_util::stream::iter([Ok(path)]).boxed())
            .collect::<Vec<_>>();
        let (results, record) = recorded(self.clock.timeout(self.request_timeout, request)).await;
        let results = match results {
            Ok(results) => results,
            Err(elapsed) => return Found::Unknown(elapsed.to_string()),
        };
        self.learn(&record);
        match record.answer {
            Some(Answer::Bulk(answer)) => match answer.of([NOBODYS]).pop() {
                // Refusing the key, it knows the request.
                Some(Said::Gone | Said::Refused(_)) => Found::Yes,
                Some(Said::Nothing) | None => {
                    Found::Unknown("its answer does not name the key".into())
                }
            },
            Some(Answer::Refused(refusal)) if refusal.without_bulk() => {
                self.without_bulk.store(true, Ordering::Relaxed);
                Found::No
            }
            Some(Answer::Refused(refusal)) => Found::Unknown(refusal.text()),
            Some(Answer::Garbled(text) | Answer::Broken(text)) => Found::Unknown(text),
            Some(Answer::Success) | None => {
                let error = results.into_iter().find_map(Result::err);
                let text = error.map_or_else(|| "no answer".into(), |error| error.to_string());
                Found::Unknown(line(&text))
            }
        }
    }
}
