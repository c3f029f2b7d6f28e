//! Where a store is: PicoMQ's `bucket-id@uri`.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use url::Url;

use crate::StorageError;

/// The bucket id of a storage URI that names none, as PicoMQ's default.
pub const DEFAULT_BUCKET: i16 = -2;

/// The query keys of an S3 location.
const S3_KEYS: [&str; 3] = ["region", "endpoint", "pathStyle"];

/// Where a store is: `<bucket id>@file://PATH` or
/// `<bucket id>@s3://bucket?region=…&endpoint=…&pathStyle=true`; the bucket id
/// may be left out. Credentials are never part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageUri {
    bucket: i16,
    place: Place,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    File(PathBuf),
    S3(S3Location),
}

/// A bucket on an S3 service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct S3Location {
    /// The bucket's name.
    pub bucket: String,
    /// Its region; none leaves it to `AWS_REGION` or the service's default.
    pub region: Option<String>,
    /// Where it is served; none is AWS itself.
    pub endpoint: Option<Url>,
    /// The bucket in the path instead of in the host name.
    pub path_style: bool,
}

impl StorageUri {
    /// The bucket id: only a tag in objects' attributes, no part of any key.
    pub fn bucket(&self) -> i16 {
        self.bucket
    }

    /// The directory of a `file://` store.
    pub fn directory(&self) -> Option<&Path> {
        match &self.place {
            Place::File(path) => Some(path),
            Place::S3(_) => None,
        }
    }

    /// The bucket of an `s3://` store.
    pub fn s3(&self) -> Option<&S3Location> {
        match &self.place {
            Place::File(_) => None,
            Place::S3(location) => Some(location),
        }
    }

    pub(crate) fn place(&self) -> &Place {
        &self.place
    }
}

impl fmt::Display for StorageUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@", self.bucket)?;
        match &self.place {
            Place::File(path) => write!(f, "file://{}", path.display()),
            Place::S3(location) => location.fmt(f),
        }
    }
}

impl fmt::Display for S3Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s3://{}", self.bucket)?;
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        if let Some(region) = &self.region {
            query.append_pair("region", region);
        }
        if let Some(endpoint) = &self.endpoint {
            query.append_pair("endpoint", endpoint.as_str().trim_end_matches('/'));
        }
        if self.path_style {
            query.append_pair("pathStyle", "true");
        }
        let query = query.finish().replace("%3A", ":").replace("%2F", "/");
        if query.is_empty() {
            return Ok(());
        }
        write!(f, "?{query}")
    }
}

impl FromStr for StorageUri {
    type Err = StorageError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = |reason: String| StorageError::BadUri {
            uri: shown(text),
            reason,
        };
        let (bucket, uri) = split_bucket(text).map_err(&bad)?;
        let (scheme, rest) = uri.split_once("://").ok_or_else(|| {
            bad("expected `file://PATH` or `s3://bucket?region=…`, after `<bucket id>@` if there is one".into())
        })?;
        let place = match scheme {
            "file" => file(rest).map(Place::File),
            "s3" => s3(rest).map(Place::S3),
            "mem" => Err("`mem://` lives inside one PicoMQ process, so no other process can maintain it; use file:// or s3://".into()),
            other => Err(format!("unknown scheme `{other}`; there are file:// and s3://")),
        };
        Ok(Self {
            bucket,
            place: place.map_err(&bad)?,
        })
    }
}

/// The URI as errors show it: a secret may have been put into any part of it.
fn shown(text: &str) -> String {
    let without_query = text.split_once('?').map_or(text, |(before, _)| before);
    match without_query.split_once("://") {
        Some((before, after)) => match after.rsplit_once('@') {
            Some((_, host)) if !before.ends_with("file") => format!("{before}://…@{host}"),
            _ => without_query.to_owned(),
        },
        None => without_query.to_owned(),
    }
}

fn split_bucket(text: &str) -> Result<(i16, &str), String> {
    let scheme_at = text.find("://").unwrap_or(text.len());
    match text.find('@') {
        Some(at) if at < scheme_at => {
            let id = &text[..at];
            let bucket = id.parse().map_err(|_| {
                format!(
                    "bucket id `{id}` is no whole number from {} to {}",
                    i16::MIN,
                    i16::MAX
                )
            })?;
            Ok((bucket, &text[at + 1..]))
        }
        _ => Ok((DEFAULT_BUCKET, text)),
    }
}

fn file(rest: &str) -> Result<PathBuf, String> {
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    if let Some((key, _)) = pairs(query).next() {
        return Err(format!("file:// takes no `{key}`"));
    }
    if path.is_empty() {
        return Err("the directory is missing, as in file://./objects".into());
    }
    if path.contains('\0') {
        return Err("a path holds no NUL".into());
    }
    Ok(PathBuf::from(path))
}

fn s3(rest: &str) -> Result<S3Location, String> {
    let (bucket, query) = rest.split_once('?').unwrap_or((rest, ""));
    let bucket = bucket.strip_suffix('/').unwrap_or(bucket);
    if bucket.contains('@') {
        return Err(
            "credentials are not part of the URI; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
                .into(),
        );
    }
    if bucket.contains('/') {
        return Err(
            "PicoMQ keeps its keys at the top of a bucket; a path after it is not supported".into(),
        );
    }
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    if bucket.is_empty() || bucket.len() > 255 || !bucket.bytes().all(allowed) {
        return Err("the bucket's name is missing or holds characters that no bucket has".into());
    }
    let mut location = S3Location {
        bucket: bucket.to_owned(),
        region: None,
        endpoint: None,
        path_style: false,
    };
    let mut seen = Vec::new();
    for (key, value) in pairs(query) {
        if seen.contains(&key) {
            return Err(format!("`{key}` is given twice"));
        }
        match key.as_str() {
            "region" => location.region = (!value.is_empty()).then(|| value.clone()),
            "endpoint" => location.endpoint = Some(endpoint(&value)?),
            "pathStyle" => {
                location.path_style = value
                    .parse()
                    .map_err(|_| "pathStyle is `true` or `false`".to_owned())?;
            }
            other => return Err(unknown_key(other)),
        }
        seen.push(key);
    }
    Ok(location)
}

fn endpoint(value: &str) -> Result<Url, String> {
    let url = Url::parse(value).map_err(|error| {
        format!("endpoint: {error}; expected https://host[:port] or http://host[:port]")
    })?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err("endpoint: expected https://host[:port] or http://host[:port]".into());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("endpoint: credentials are not part of the URI; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY".into());
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("endpoint: nothing may follow the host and path".into());
    }
    Ok(url)
}

fn pairs(query: &str) -> impl Iterator<Item = (String, String)> {
    url::form_urlencoded::parse(query.as_bytes()).into_owned()
}

fn unknown_key(key: &str) -> String {
    let lower = key.to_lowercase();
    if ["secret", "password", "token", "access_key", "accesskey"]
        .iter()
        .any(|word| lower.contains(word))
    {
        return format!(
            "`{key}`: credentials are not part of the URI; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        );
    }
    let nearest = S3_KEYS
        .into_iter()
        .map(|known| {
            (
                strsim::damerau_levenshtein(&known.to_lowercase(), &lower.replace(['-', '_'], "")),
                known,
            )
        })
        .min()
        .filter(|(distance, _)| *distance <= 3);
    match nearest {
        Some((_, known)) => format!("unknown key `{key}`; did you mean `{known}`?"),
        None => format!("unknown key `{key}`; there are {}", S3_KEYS.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> StorageUri {
        text.parse()
            .unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn refused(text: &str) -> String {
        match text.parse::<StorageUri>() {
            Ok(uri) => panic!("{text} was taken as {uri}"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn picomqs_own_forms_are_taken() {
        let uri = parse("-2@file://./objects");
        assert_eq!(uri.bucket(), -2);
        assert_eq!(uri.directory(), Some(Path::new("./objects")));
        assert_eq!(
            parse("7@file:///var/o").directory(),
            Some(Path::new("/var/o"))
        );
        let uri = parse(
            "-2@s3://bucket?region=eu-west-1&endpoint=http%3A%2F%2F127.0.0.1%3A9000&pathStyle=true",
        );
        let location = uri.s3().expect("S3");
        assert_eq!(location.bucket, "bucket");
        assert_eq!(location.region.as_deref(), Some("eu-west-1"));
        assert_eq!(
            location.endpoint.as_ref().map(Url::as_str),
            Some("http://127.0.0.1:9000/")
        );
        assert!(location.path_style);
    }

    #[test]
    fn the_bucket_id_may_be_left_out() {
        assert_eq!(parse("file://./objects").bucket(), DEFAULT_BUCKET);
        assert_eq!(parse("s3://bucket").bucket(), DEFAULT_BUCKET);
        assert_eq!(parse("file:///a@b").directory(), Some(Path::new("/a@b")));
    }

    #[test]
    fn what_is_shown_parses_again() {
        for text in [
            "-2@file://./objects",
            "3@file:///var/lib/o",
            "-2@s3://bucket",
            "-2@s3://bucket?region=eu-west-1&endpoint=http://127.0.0.1:9000&pathStyle=true",
        ] {
            let uri = parse(text);
            assert_eq!(uri.to_string(), text);
            assert_eq!(parse(&uri.to_string()), uri);
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, part) in [
            ("", "expected `file://PATH`"),
            ("./objects", "expected `file://PATH`"),
            ("-2@mem://x", "lives inside one PicoMQ process"),
            ("-2@gs://x", "unknown scheme `gs`"),
            ("40000@file://x", "no whole number from -32768"),
            ("x@file://x", "no whole number"),
            ("-2@file://", "the directory is missing"),
            ("-2@file://x?region=y", "takes no `region`"),
            ("-2@s3://", "name is missing"),
            ("-2@s3://a/b", "a path after it"),
            ("-2@s3://b?pathstyle=true", "did you mean `pathStyle`?"),
            ("-2@s3://b?path_style=true", "did you mean `pathStyle`?"),
            ("-2@s3://b?regoin=x", "did you mean `region`?"),
            (
                "-2@s3://b?zzzzzzzzzz=x",
                "there are region, endpoint, pathStyle",
            ),
            ("-2@s3://b?pathStyle=yes", "`true` or `false`"),
            ("-2@s3://b?region=a&region=b", "given twice"),
            ("-2@s3://b?endpoint=localhost:9000", "expected https://host"),
            ("-2@s3://b?endpoint=ftp://x", "expected https://host"),
        ] {
            let error = refused(text);
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn a_secret_is_never_repeated() {
        for text in [
            "-2@s3://AKIA:hunter2@bucket",
            "-2@s3://b?secret_access_key=hunter2",
            "-2@s3://b?AWS_SECRET=hunter2",
            "-2@s3://b?endpoint=http://user:hunter2@host",
            "s3://AKIA:hunter2@bucket/x",
        ] {
            let error = refused(text);
            assert!(!error.contains("hunter2"), "{error}");
            assert!(error.contains("AWS_SECRET_ACCESS_KEY"), "{error}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "(-?[0-9]{0,6}@|file|s3|mem|://|[?&=%@/:.]|\\PC){0,16}") {
            if let Ok(uri) = text.parse::<StorageUri>() {
                proptest::prop_assert_eq!(uri.to_string().parse::<StorageUri>().ok(), Some(uri));
            }
        }
    }
}
