//! Universal Binary JSON, as far as XGBoost writes it: numbers of all sizes, texts, arrays that may
//! say their type and length, objects.
//!
//! The result is the same value that JSON would give. Depth is bounded, and no length is believed
//! beyond what the file has bytes for.

use serde_json::{Map, Number, Value};

use super::FileError;

const DEPTH: usize = 64;

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// The one value that the bytes hold.
pub(super) fn read(bytes: &[u8]) -> Result<Value, FileError> {
    let mut reader = Reader { bytes, at: 0 };
    let kind = reader.kind()?;
    let value = reader.value(kind, 0)?;
    if reader.at == bytes.len() { Ok(value) } else { Err(broken("bytes are left over")) }
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], FileError> {
        let chunk = self.bytes.get(self.at..).and_then(|rest| rest.first_chunk::<N>());
        self.at += N;
        chunk.copied().ok_or_else(|| broken("it is cut off"))
    }

    /// The next marker that means something.
    fn kind(&mut self) -> Result<u8, FileError> {
        loop {
            let [kind] = self.take()?;
            if kind != b'N' {
                return Ok(kind);
            }
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn value(&mut self, kind: u8, depth: usize) -> Result<Value, FileError> {
        if depth > DEPTH {
            return Err(broken("it is nested too deeply"));
        }
        Ok(match kind {
            b'Z' => Value::Null,
            b'T' => Value::Bool(true),
            b'F' => Value::Bool(false),
            b'd' => number(f64::from(f32::from_be_bytes(self.take()?)))?,
            b'D' => number(f64::from_be_bytes(self.take()?))?,
            b'C' => Value::from(char::from(self.take::<1>()?[0]).to_string()),
            b'S' => Value::from(self.text()?),
            b'[' => self.array(depth + 1)?,
            b'{' => self.object(depth + 1)?,
            _ => Value::from(self.integer(kind)?),
        })
    }

    fn integer(&mut self, kind: u8) -> Result<i64, FileError> {
        Ok(match kind {
            b'i' => i64::from(i8::from_be_bytes(self.take()?)),
            b'U' => i64::from(u8::from_be_bytes(self.take()?)),
            b'I' => i64::from(i16::from_be_bytes(self.take()?)),
            b'u' => i64::from(u16::from_be_bytes(self.take()?)),
            b'l' => i64::from(i32::from_be_bytes(self.take()?)),
            b'm' => i64::from(u32::from_be_bytes(self.take()?)),
            b'L' => i64::from_be_bytes(self.take()?),
            b'M' => i64::try_from(u64::from_be_bytes(self.take()?))
                .map_err(|_| broken("a number has more than 63 bits"))?,
            other => {
                let at = self.at;
                return Err(broken(&format!("type {other:#04x} before byte {at} is unknown")));
            }
        })
    }

    fn length(&mut self) -> Result<usize, FileError> {
        let kind = self.kind()?;
        usize::try_from(self.integer(kind)?).map_err(|_| broken("a length is negative"))
    }

    fn text(&mut self) -> Result<String, FileError> {
        let length = self.length()?;
        let end = self.at.checked_add(length).filter(|end| *end <= self.bytes.len());
        let end = end.ok_or_else(|| broken("a text is cut off"))?;
        let text = std::str::from_utf8(&self.bytes[self.at..end]);
        self.at = end;
        text.map(str::to_owned).map_err(|_| broken("a text is not UTF-8"))
    }

    /// The type and the count that a container may say before its items.
    fn header(&mut self) -> Result<(Option<u8>, Option<usize>), FileError> {
        let mut kind = None;
        if self.peek() == Some(b'$') {
            self.at += 1;
            kind = Some(self.take::<1>()?[0]);
            // Items without bytes would let a short file claim any number of them.
            if matches!(kind, Some(b'Z' | b'T' | b'F' | b'N')) || self.peek() != Some(b'#') {
                return Err(broken("a typed array is not described rightly"));
            }
        }
        if self.peek() != Some(b'#') {
            return Ok((kind, None));
        }
        self.at += 1;
        let count = self.length()?;
        if count > self.bytes.len() - self.at.min(self.bytes.len()) {
            return Err(broken("an array claims more items than there are bytes"));
        }
        Ok((kind, Some(count)))
    }

    fn array(&mut self, depth: usize) -> Result<Value, FileError> {
        let (kind, count) = self.header()?;
        let mut items = Vec::new();
        while !self.ends(b']', count, items.len()) {
            let kind = kind.map_or_else(|| self.kind(), Ok)?;
            items.push(self.value(kind, depth)?);
        }
        Ok(Value::Array(items))
    }

    fn object(&mut self, depth: usize) -> Result<Value, FileError> {
        let (kind, count) = self.header()?;
        let mut items = Map::new();
        let mut seen = 0;
        while !self.ends(b'}', count, seen) {
            let key = self.text()?;
            let kind = kind.map_or_else(|| self.kind(), Ok)?;
            items.insert(key, self.value(kind, depth)?);
            seen += 1;
        }
        Ok(Value::Object(items))
    }

    /// Whether a container ends here: by its count, or by its mark, which is then passed.
    fn ends(&mut self, mark: u8, count: Option<usize>, seen: usize) -> bool {
        match count {
            Some(count) => seen >= count,
            None => {
                while self.peek() == Some(b'N') {
                    self.at += 1;
                }
                let ends = self.peek() == Some(mark);
                self.at += usize::from(ends);
                ends
            }
        }
    }
}

fn number(value: f64) -> Result<Value, FileError> {
    Number::from_f64(value).map(Value::Number).ok_or_else(|| broken("a number is not finite"))
}

fn broken(what: &str) -> FileError {
    FileError::Broken { format: "UBJSON", what: what.to_owned() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_kind_of_value_is_read() {
        let bytes = b"{i\x01a[$d#i\x02\x3f\x00\x00\x00\xbf\x80\x00\x00i\x01b[ZTFU\xffI\x01\x00\
                      l\xff\xff\xff\xffL\x00\x00\x00\x00\x00\x00\x00\x07u\xff\xffm\x80\x00\x00\x00\
                      D\x3f\xf8\x00\x00\x00\x00\x00\x00]i\x01cSi\x02hii\x01d{i\x01x[]}}";
        let expected = json!({
            "a": [0.5, -1.0],
            "b": [null, true, false, 255, 256, -1, 7, 65535, 2_147_483_648_u32, 1.5],
            "c": "hi",
            "d": {"x": []},
        });
        assert_eq!(read(bytes), Ok(expected));
    }

    #[test]
    fn lies_and_cuts_are_refused() {
        let bytes = b"{i\x01a[$d#i\x02\x3f\x00\x00\x00\xbf\x80\x00\x00}";
        for length in 0..bytes.len() {
            assert!(read(&bytes[..length]).is_err(), "{length} bytes");
        }
        assert!(read(b"[$Z#L\x7f\xff\xff\xff\xff\xff\xff\xff").is_err(), "no bytes each");
        assert!(read(b"[$U#L\x7f\xff\xff\xff\xff\xff\xff\xff").is_err(), "too many");
        assert!(read(&[b'['; 100]).is_err(), "too deep");
        assert!(read(b"ZZ").is_err(), "left over");
        assert!(read(b"d\x7f\xc0\x00\x00").is_err(), "NaN");
    }
}
