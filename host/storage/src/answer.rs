//! What an S3 service says in the body of an answer, and what follows from it.

use std::collections::HashMap;

use serde::Deserialize;

use crate::DeleteOutcome;

/// The longest text that is passed on from a service.
const TEXT_LIMIT: usize = 300;

/// Codes that blame the caller as a whole, so that no key of a refused request
/// would fare better alone.
const CALLER_CODES: [&str; 9] = [
    "InvalidAccessKeyId",
    "SignatureDoesNotMatch",
    "ExpiredToken",
    "InvalidToken",
    "TokenRefreshRequired",
    "NotSignedUp",
    "AccountProblem",
    "RequestTimeTooSkewed",
    "InvalidSecurity",
];

const DENIED_CODES: [&str; 5] = [
    "AccessDenied",
    "AllAccessDisabled",
    "MethodNotAllowed",
    "InvalidObjectState",
    "UnauthorizedAccess",
];

const THROTTLED_CODES: [&str; 8] = [
    "SlowDown",
    "SlowDownRead",
    "SlowDownWrite",
    "ServiceUnavailable",
    "TooManyRequests",
    "Throttling",
    "ThrottlingException",
    "RequestLimitExceeded",
];

const NO_BULK_CODES: [&str; 3] = ["NotImplemented", "MethodNotAllowed", "MalformedXML"];

const ELSEWHERE_CODES: [&str; 4] = [
    "PermanentRedirect",
    "TemporaryRedirect",
    "AuthorizationHeaderMalformed",
    "IllegalLocationConstraintException",
];

/// An answer that is an error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The HTTP status; 200 for one key's error in a bulk answer.
    pub(crate) status: u16,
    /// The service's code, as `AccessDenied`; empty if it sent none.
    pub(crate) code: String,
    /// What it says to people.
    pub(crate) message: String,
}

impl Refusal {
    /// Read an error answer. A body that is none leaves only the status.
    pub(crate) fn read(status: u16, body: &[u8]) -> Self {
        let document = root(body)
            .filter(|root| root == "Error")
            .and_then(|_| quick_xml::de::from_reader::<_, ErrorDocument>(body).ok())
            .unwrap_or_default();
        Self {
            status,
            code: document.code.unwrap_or_default(),
            message: document.message.unwrap_or_default(),
        }
    }

    pub(crate) fn throttled(&self) -> bool {
        matches!(self.status, 429 | 503) || THROTTLED_CODES.contains(&self.code.as_str())
    }

    pub(crate) fn denied(&self) -> bool {
        matches!(self.status, 401 | 403)
            || DENIED_CODES.contains(&self.code.as_str())
            || self.blames_caller()
    }

    /// Nothing would fare better alone.
    pub(crate) fn blames_caller(&self) -> bool {
        self.status == 401 || CALLER_CODES.contains(&self.code.as_str())
    }

    /// The service does not know bulk deletes.
    pub(crate) fn without_bulk(&self) -> bool {
        matches!(self.status, 405 | 501) || NO_BULK_CODES.contains(&self.code.as_str())
    }

    /// It takes the request for no request at all: it does not know it, or it
    /// names more keys than the service takes.
    pub(crate) fn malformed(&self) -> bool {
        self.code == "MalformedXML"
    }

    /// The bucket is served elsewhere.
    pub(crate) fn elsewhere(&self) -> bool {
        matches!(self.status, 301 | 307 | 308) || ELSEWHERE_CODES.contains(&self.code.as_str())
    }

    pub(crate) fn no_bucket(&self) -> bool {
        self.code == "NoSuchBucket"
    }

    /// The object is not there: only the code says so for sure. A bare 404 may
    /// as well come from a server that is no object store.
    pub(crate) fn no_key(&self) -> bool {
        matches!(self.code.as_str(), "NoSuchKey" | "NoSuchVersion")
    }

    /// What became of an object whose delete was answered so.
    pub(crate) fn outcome(&self) -> DeleteOutcome {
        if self.no_key() {
            DeleteOutcome::Absent
        } else if self.throttled() {
            DeleteOutcome::Throttled
        } else if self.denied() {
            DeleteOutcome::Denied(self.text())
        } else {
            DeleteOutcome::Retry(self.text())
        }
    }

    /// For people: one line, bounded.
    pub(crate) fn text(&self) -> String {
        let mut text = match (self.status, self.code.as_str()) {
            (200, "") => "the service refuses".to_owned(),
            (200, code) => code.to_owned(),
            (status, "") => format!("HTTP {status}"),
            (status, code) => format!("HTTP {status} {code}"),
        };
        if !self.message.is_empty() {
            text.push_str(": ");
            text.push_str(&self.message);
        }
        line(&text)
    }
}

/// One line of bounded length without control characters.
pub(crate) fn line(text: &str) -> String {
    let mut line: String = text
        .chars()
        .take(TEXT_LIMIT)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    if text.chars().nth(TEXT_LIMIT).is_some() {
        line.push('…');
    }
    line
}

/// The answer to a bulk delete.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BulkAnswer {
    /// Keys that were named as deleted; none at all from a quiet service.
    named: HashMap<String, Option<Refusal>>,
    /// An error was named for a key.
    errors: bool,
    /// A key was named as deleted.
    deleted: bool,
    /// The service put a marker over the bytes instead of deleting them.
    pub(crate) marked: bool,
}

/// What a bulk answer says of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    Gone,
    Refused(Refusal),
    Nothing,
}

impl BulkAnswer {
    /// Read the answer to a bulk delete.
    ///
    /// # Errors
    /// What is wrong with it, when it is not one.
    pub(crate) fn read(body: &[u8]) -> Result<Self, String> {
        match root(body) {
            Some(root) if root == "DeleteResult" => {}
            Some(root) => {
                return Err(line(&format!(
                    "the answer is a `{root}`, not a DeleteResult"
                )));
            }
            None => return Err("the answer is not XML".into()),
        }
        let document: DeleteResult = quick_xml::de::from_reader(body)
            .map_err(|error| line(&format!("the answer cannot be read: {error}")))?;
        let mut answer = Self::default();
        for entry in document.deleted {
            answer.deleted = true;
            answer.marked |= entry.delete_marker.as_deref() == Some("true");
            if let Some(key) = entry.key {
                answer.named.insert(key, None);
            }
        }
        for entry in document.errors {
            answer.errors = true;
            let refusal = Refusal {
                status: 200,
                code: entry.code.unwrap_or_default(),
                message: entry.message.unwrap_or_default(),
            };
            // An error wins over a success that names the same key.
            answer
                .named
                .insert(entry.key.unwrap_or_default(), Some(refusal));
        }
        Ok(answer)
    }

    /// What it says of these keys. A quiet service names only errors; if one
    /// of them names no key that was asked for, its silence proves nothing.
    pub(crate) fn of<'a>(&self, keys: impl IntoIterator<Item = &'a str>) -> Vec<Said> {
        let mut known_errors = 0;
        let mut said: Vec<Said> = keys
            .into_iter()
            .map(|key| match self.named.get(key) {
                Some(None) => Said::Gone,
                Some(Some(refusal)) => {
                    known_errors += 1;
                    Said::Refused(refusal.clone())
                }
                None => Said::Nothing,
            })
            .collect();
        let all_errors = self.named.values().filter(|entry| entry.is_some()).count();
        let quiet = !self.deleted && (!self.errors || known_errors == all_errors);
        if quiet {
            for entry in &mut said {
                if *entry == Said::Nothing {
                    *entry = Said::Gone;
                }
            }
        }
        said
    }
}

#[derive(Debug, Default, Deserialize)]
struct ErrorDocument {
    #[serde(rename = "Code")]
    code: Option<String>,
    #[serde(rename = "Message")]
    message: Option<String>,
}

#[derive(Debug, Deserialize)]
struct DeleteResult {
    #[serde(rename = "Deleted", default)]
    deleted: Vec<DeletedEntry>,
    #[serde(rename = "Error", default)]
    errors: Vec<ErrorEntry>,
}

#[derive(Debug, Deserialize)]
struct DeletedEntry {
    #[serde(rename = "Key")]
    key: Option<String>,
    #[serde(rename = "DeleteMarker")]
    delete_marker: Option<String>,
}

#[derive(Debug, Deserialize)]
struct ErrorEntry {
    #[serde(rename = "Key")]
    key: Option<String>,
    #[serde(rename = "Code")]
    code: Option<String>,
    #[serde(rename = "Message")]
    message: Option<String>,
}

/// The name of the document's root element.
pub(crate) fn root(body: &[u8]) -> Option<String> {
    use quick_xml::events::Event;
    let mut reader = quick_xml::Reader::from_reader(body);
    let mut buffer = Vec::new();
    loop {
        let event = reader.read_event_into(&mut buffer).ok()?;
        match event {
            Event::Start(start) | Event::Empty(start) => {
                return Some(String::from_utf8_lossy(start.local_name().as_ref()).into_owned());
            }
            Event::Eof => return None,
            _ => {}
        }
        buffer.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: [&str; 3] = ["a/DEFAULT/1", "b/DEFAULT/2", "c/DEFAULT/3"];

    fn read(inner: &str) -> Vec<Said> {
        let body =
            format!("<?xml version=\"1.0\"?><DeleteResult xmlns=\"x\">{inner}</DeleteResult>");
        BulkAnswer::read(body.as_bytes())
            .expect("it is one")
            .of(KEYS)
    }

    fn refused(code: &str) -> Said {
        Said::Refused(Refusal {
            status: 200,
            code: code.into(),
            message: String::new(),
        })
    }

    #[test]
    fn each_key_has_its_own_answer() {
        let said = read(
            "<Deleted><Key>a/DEFAULT/1</Key></Deleted>\
             <Error><Key>b/DEFAULT/2</Key><Code>AccessDenied</Code></Error>\
             <Deleted><Key>c/DEFAULT/3</Key></Deleted>",
        );
        assert_eq!(said, [Said::Gone, refused("AccessDenied"), Said::Gone]);
    }

    #[test]
    fn a_quiet_service_names_only_errors() {
        assert_eq!(read(""), [Said::Gone, Said::Gone, Said::Gone]);
        let said = read("<Error><Key>c/DEFAULT/3</Key><Code>SlowDown</Code></Error>");
        assert_eq!(said, [Said::Gone, Said::Gone, refused("SlowDown")]);
        let empty = BulkAnswer::read(b"<DeleteResult/>").expect("it is one");
        assert_eq!(empty.of(KEYS), [Said::Gone, Said::Gone, Said::Gone]);
    }

    #[test]
    fn silence_proves_nothing_beside_an_error_that_names_no_key_of_ours() {
        let said = read("<Error><Key>c%2FDEFAULT%2F3</Key><Code>AccessDenied</Code></Error>");
        assert_eq!(said, [Said::Nothing, Said::Nothing, Said::Nothing]);
        let said = read("<Deleted><Key>a/DEFAULT/1</Key></Deleted>");
        assert_eq!(said, [Said::Gone, Said::Nothing, Said::Nothing]);
    }

    #[test]
    fn an_error_wins_over_a_success_for_the_same_key() {
        let said = read(
            "<Error><Key>a/DEFAULT/1</Key><Code>InternalError</Code></Error>\
             <Deleted><Key>a/DEFAULT/1</Key></Deleted><Deleted><Key>b/DEFAULT/2</Key></Deleted>",
        );
        assert_eq!(said, [refused("InternalError"), Said::Gone, Said::Nothing]);
    }

    #[test]
    fn what_is_no_answer_is_refused() {
        for body in [
            "",
            "OK",
            "<html><body>login</body></html>",
            "<Error><Code>X</Code></Error>",
            "<DeleteResult><Deleted><Key>a/DEFAULT/1</Key>",
            "<DeleteResult><Deleted><Key>a/DEFAULT/1</Wrong></DeleteResult>",
        ] {
            assert!(BulkAnswer::read(body.as_bytes()).is_err(), "{body}");
        }
    }

    #[test]
    fn a_versioned_bucket_shows() {
        let body = "<DeleteResult><Deleted><Key>k</Key><DeleteMarker>true</DeleteMarker></Deleted></DeleteResult>";
        assert!(BulkAnswer::read(body.as_bytes()).expect("it is one").marked);
    }

    #[test]
    fn errors_are_told_apart() {
        let of = |status, code: &str| {
            Refusal {
                status,
                code: code.into(),
                message: String::new(),
            }
            .outcome()
        };
        assert_eq!(of(404, "NoSuchKey"), DeleteOutcome::Absent);
        assert!(matches!(of(404, ""), DeleteOutcome::Retry(_)));
        assert!(matches!(of(404, "NoSuchBucket"), DeleteOutcome::Retry(_)));
        for (status, code) in [(503, ""), (429, ""), (503, "SlowDown"), (200, "SlowDown")] {
            assert_eq!(of(status, code), DeleteOutcome::Throttled);
        }
        for (status, code) in [(403, ""), (200, "AccessDenied"), (401, "")] {
            assert!(matches!(of(status, code), DeleteOutcome::Denied(_)));
        }
        for (status, code) in [
            (500, "InternalError"),
            (200, "InternalError"),
            (400, "Strange"),
        ] {
            assert!(matches!(of(status, code), DeleteOutcome::Retry(_)));
        }
    }

    #[test]
    fn texts_are_one_bounded_line() {
        let refusal = Refusal {
            status: 403,
            code: "AccessDenied".into(),
            message: format!("\u{1b}[2J\n{}", "x".repeat(5_000)),
        };
        let text = refusal.text();
        assert!(text.starts_with("HTTP 403 AccessDenied: "));
        assert!(text.chars().count() <= TEXT_LIMIT + 1 && !text.chars().any(char::is_control));
    }

    proptest::proptest! {
        #[test]
        fn no_body_panics(body: Vec<u8>, status: u16) {
            let _ = BulkAnswer::read(&body);
            let _ = Refusal::read(status, &body).outcome();
        }

        #[test]
        fn no_markup_panics(body in "(<(DeleteResult|Deleted|Error|Key|Code)/?>|</(DeleteResult|Deleted|Error|Key)>|&[a-z]{0,4};|[a-z<&]){0,24}") {
            if let Ok(answer) = BulkAnswer::read(body.as_bytes()) {
                let _ = answer.of(KEYS);
            }
        }
    }
}
