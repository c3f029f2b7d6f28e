//! A cursor over a payload. Every read is checked; no length that the payload
//! declares decides an allocation beyond the bytes that are there.

use super::DecodeError;

#[derive(Clone, Debug)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    pub(crate) fn corrupt<T>(&self, what: &'static str) -> Result<T, DecodeError> {
        Err(DecodeError::Corrupt { at: self.at, what })
    }

    pub(crate) fn position(&self) -> usize {
        self.at
    }

    #[inline]
    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], DecodeError> {
        match self.bytes.get(self.at..).and_then(<[u8]>::first_chunk::<N>) {
            Some(chunk) => {
                self.at += N;
                Ok(*chunk)
            }
            None => self.corrupt(what),
        }
    }

    pub(crate) fn version(&mut self) -> Result<(), DecodeError> {
        match self.u8("no version byte")? {
            super::VERSION => Ok(()),
            other => Err(DecodeError::UnsupportedVersion(other)),
        }
    }

    #[inline]
    pub(crate) fn u8(&mut self, what: &'static str) -> Result<u8, DecodeError> {
        self.array::<1>(what).map(|[byte]| byte)
    }

    #[inline]
    pub(crate) fn u32(&mut self, what: &'static str) -> Result<u32, DecodeError> {
        self.array(what).map(u32::from_le_bytes)
    }

    #[inline]
    pub(crate) fn i32(&mut self, what: &'static str) -> Result<i32, DecodeError> {
        self.array(what).map(i32::from_le_bytes)
    }

    #[inline]
    pub(crate) fn u64(&mut self, what: &'static str) -> Result<u64, DecodeError> {
        self.array(what).map(u64::from_le_bytes)
    }

    #[inline]
    pub(crate) fn i64(&mut self, what: &'static str) -> Result<i64, DecodeError> {
        self.array(what).map(i64::from_le_bytes)
    }

    pub(crate) fn blob(&mut self, what: &'static str) -> Result<&'a [u8], DecodeError> {
        let start = self.at;
        let length = self.u32(what)? as usize;
        match self
            .bytes
            .get(self.at..)
            .and_then(|rest| rest.get(..length))
        {
            Some(blob) => {
                self.at += length;
                Ok(blob)
            }
            None => Err(DecodeError::Corrupt { at: start, what }),
        }
    }

    pub(crate) fn text(&mut self, what: &'static str) -> Result<&'a str, DecodeError> {
        let start = self.at;
        let bytes = self.blob(what)?;
        std::str::from_utf8(bytes).map_err(|_| DecodeError::Corrupt { at: start, what })
    }

    /// A declared element count of which each takes at least `smallest` bytes.
    /// One that cannot fit in the bytes left is corrupt, so the count that
    /// comes back is safe to allocate for.
    pub(crate) fn count(
        &self,
        declared: u64,
        smallest: usize,
        what: &'static str,
    ) -> Result<usize, DecodeError> {
        let room = (self.bytes.len() - self.at) / smallest;
        match usize::try_from(declared) {
            Ok(count) if count <= room => Ok(count),
            _ => self.corrupt(what),
        }
    }

    pub(crate) fn end(&self) -> Result<(), DecodeError> {
        if self.at == self.bytes.len() {
            Ok(())
        } else {
            self.corrupt("bytes after the end")
        }
    }
}
