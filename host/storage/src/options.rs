//! How a store is used.

use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;

use crate::StorageError;

/// Credentials for an S3 service.
#[derive(Clone)]
pub struct Credentials {
    /// The access key's id.
    pub access_key_id: String,
    /// The secret access key; never shown.
    pub secret_access_key: String,
    /// The session token of temporary credentials; never shown.
    pub session_token: Option<String>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("access_key_id", &self.access_key_id)
            .finish_non_exhaustive()
    }
}

/// How a store is used.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Requests in flight: bulk deletes of up to 1000 keys on S3, workers on a
    /// directory. At least 1; too many meet the store's throttling.
    pub concurrency: usize,
    /// Requests in flight for single objects (S3 only). At least 1.
    pub single_concurrency: usize,
    /// Keys in a bulk delete, 1 to 1000.
    pub chunk: usize,
    /// The most objects that are deleted in a second, over all calls; none
    /// leaves it to the store.
    pub keys_per_second: Option<NonZeroU32>,
    /// How long one request may take, connecting included.
    pub request_timeout: Duration,
    /// How long connecting may take.
    pub connect_timeout: Duration,
    /// How often a *read* is tried again, inside `request_timeout`. A delete
    /// is not: its caller decides.
    pub read_retries: usize,
    /// The longest link list of a composite that is read, in bytes.
    pub link_list_bytes: u64,
    /// Credentials for an S3 service, for those who embed the store. None
    /// takes them from `AWS_*` variables, else from the machine's role.
    pub credentials: Option<Credentials>,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            concurrency: 4,
            single_concurrency: 32,
            chunk: 1000,
            keys_per_second: None,
            request_timeout: Duration::from_secs(15),
            connect_timeout: Duration::from_secs(5),
            read_retries: 2,
            link_list_bytes: 16 << 20,
            credentials: None,
        }
    }
}

impl StoreOptions {
    /// Check every option's range.
    ///
    /// # Errors
    /// The first option that is out of it.
    pub fn validate(&self) -> Result<(), StorageError> {
        let checks = [
            (
                "concurrency",
                (1..=256).contains(&self.concurrency),
                "1 to 256",
            ),
            (
                "single_concurrency",
                (1..=1024).contains(&self.single_concurrency),
                "1 to 1024",
            ),
            ("chunk", (1..=1000).contains(&self.chunk), "1 to 1000 keys"),
            (
                "request_timeout",
                !self.request_timeout.is_zero(),
                "longer than 0",
            ),
            (
                "connect_timeout",
                !self.connect_timeout.is_zero(),
                "longer than 0",
            ),
        ];
        match checks.into_iter().find(|(_, good, _)| !good) {
            None => Ok(()),
            Some((option, _, range)) => Err(StorageError::BadOption {
                option,
                reason: format!("expected {range}"),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_out_of_range_is_named() {
        assert!(StoreOptions::default().validate().is_ok());
        let options = StoreOptions {
            chunk: 1001,
            ..StoreOptions::default()
        };
        let error = options.validate().expect_err("too many").to_string();
        assert_eq!(error, "storage option chunk: expected 1 to 1000 keys");
    }

    #[test]
    fn secrets_are_not_shown() {
        let options = StoreOptions {
            credentials: Some(Credentials {
                access_key_id: "AKIA".into(),
                secret_access_key: "hunter2".into(),
                session_token: Some("hunter3".into()),
            }),
            ..StoreOptions::default()
        };
        assert!(!format!("{options:?}").contains("hunter"));
    }
}
