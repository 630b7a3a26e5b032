//! Reads the requests of a trace, line by line.

use std::io::{BufRead, Read};

use super::error::TraceError;
use super::line::{LineError, TraceRequest, is_blank};

/// The longest line, without its line end.
pub const LINE_BYTES_MAX: usize = 64 << 10;

/// Reads the requests of one input.
pub struct TraceReader<R> {
    source: R,
    /// The name of the input in error messages.
    name: String,
    /// The last line read, without its line end.
    line: Vec<u8>,
    lines_read: u64,
}

/// The result of reading a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineRead {
    Line,
    Blank,
    End,
}

impl<R: BufRead> TraceReader<R> {
    pub fn new(name: String, source: R) -> Self {
        Self { source, name, line: Vec::new(), lines_read: 0 }
    }

    /// The next request, or `None` at the end of the trace.
    pub fn next_request(&mut self) -> Result<Option<TraceRequest<'_>>, TraceError> {
        match self.read_line()? {
            LineRead::Line => {}
            LineRead::Blank => return self.expect_only_blanks().map(|()| None),
            LineRead::End => return Ok(None),
        }
        match TraceRequest::parse(&self.line) {
            Ok(request) => Ok(Some(request)),
            Err(error) => Err(bad_line(&self.name, self.lines_read, error)),
        }
    }

    /// A blank line ends the trace: only blank lines may follow.
    #[cold]
    fn expect_only_blanks(&mut self) -> Result<(), TraceError> {
        let first_blank = self.lines_read;
        loop {
            match self.read_line()? {
                LineRead::Blank => {}
                LineRead::Line => return Err(bad_line(&self.name, first_blank, LineError::Blank)),
                LineRead::End => return Ok(()),
            }
        }
    }

    fn read_line(&mut self) -> Result<LineRead, TraceError> {
        /// CRLF.
        const LINE_END_BYTES_MAX: usize = 2;
        self.line.clear();
        let mut line = self.source.by_ref().take((LINE_BYTES_MAX + LINE_END_BYTES_MAX) as u64);
        let bytes = line.read_until(b'\n', &mut self.line).map_err(|error| TraceError::Read {
            name: self.name.clone(),
            lines_read: self.lines_read,
            error,
        })?;
        if bytes == 0 {
            return Ok(LineRead::End);
        }
        self.lines_read += 1;
        let _ = self.line.pop_if(|last| *last == b'\n');
        let _ = self.line.pop_if(|last| *last == b'\r');
        if self.line.len() > LINE_BYTES_MAX {
            let error = LineError::too_long(&self.line, LINE_BYTES_MAX);
            return Err(bad_line(&self.name, self.lines_read, error));
        }
        let blank = self.line.iter().all(|byte| is_blank(*byte));
        Ok(if blank { LineRead::Blank } else { LineRead::Line })
    }
}

#[cold]
fn bad_line(name: &str, line_number: u64, error: LineError) -> TraceError {
    TraceError::Line { name: name.to_owned(), line_number, error }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The keys of a trace, or the error.
    fn keys(trace: &[u8]) -> Result<Vec<Vec<u8>>, String> {
        let mut requests = TraceReader::new("t".to_owned(), trace);
        let mut keys = Vec::new();
        while let Some(request) = requests.next_request().map_err(|error| error.to_string())? {
            keys.push(request.key.to_vec());
        }
        Ok(keys)
    }

    #[test]
    fn lines_end_in_any_way() {
        let expected = Ok(vec![b"a".to_vec(), b"b".to_vec()]);
        assert_eq!(keys(b"1 a 1\n2 b 1\n"), expected);
        assert_eq!(keys(b"1 a 1\r\n2 b 1\r\n"), expected);
        assert_eq!(keys(b"1 a 1\n2 b 1"), expected);
        assert_eq!(keys(b"1 a 1\n2 b 1\n\n \t\r\n\n"), expected);
        assert_eq!(keys(b"1 a 1\n2 b 1\n  "), expected);
        assert_eq!(keys(b""), Ok(vec![]));
        assert_eq!(keys(b"\n\n"), Ok(vec![]));
    }

    #[test]
    fn a_blank_line_inside_is_an_error_at_its_own_number() {
        let error = keys(b"1 a 1\n\n\n2 b 1\n").unwrap_err();
        assert!(error.starts_with("t:2: the line is blank (hint: "), "{error}");
    }

    #[test]
    fn the_longest_line_and_one_longer() {
        let line = |key_bytes: usize, end: &str| {
            [b"1 ", vec![b'k'; key_bytes].as_slice(), b" 1", end.as_bytes()].concat()
        };
        let longest = LINE_BYTES_MAX - "1  1".len();
        for end in ["", "\n", "\r\n"] {
            assert_eq!(keys(&line(longest, end)).map(|keys| keys[0].len()), Ok(longest), "{end:?}");
            let error = keys(&line(longest + 1, end)).unwrap_err();
            assert!(error.starts_with("t:1: `1 kkk"), "{error}");
            assert!(error.contains("…` is longer than 65536 bytes (hint: "), "{error}");
        }
    }
}
