//! The records of a file to import, as JSON lines.
//!
//! A file of JSON lines is sent as it is. In a CSV file the first line names the columns: the fields of an override, and
//! `key.NAME` for each attribute of the key. Empty cells are left out. Cells may be quoted, as in RFC 4180.

use std::io::{self, BufRead, Read as _};

use serde_json::{Map, Value};
use tidegate_core::text::did_you_mean;

/// The longest record, in bytes.
const RECORD_BYTES_MAX: usize = 64 << 10;

/// The columns of a CSV file, besides `key.NAME`.
const COLUMNS: [&str; 18] = [
    "domain",
    "rule",
    "limit_name",
    "limit",
    "per",
    "burst",
    "sub_windows",
    "tier",
    "unlimited",
    "blocked",
    "status",
    "allow",
    "expires_in",
    "expires_at",
    "author",
    "note",
    "id",
    "version",
];

/// The format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordFormat {
    JsonLines,
    Csv,
}

/// A record: its line, and JSON or what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub line: u64,
    pub json: Result<String, String>,
}

/// Reads records one by one.
pub struct Records<R> {
    reader: R,
    /// The columns, of a CSV file.
    columns: Option<Vec<String>>,
    /// The last line that was read, from 1.
    line: u64,
}

impl<R: BufRead> Records<R> {
    /// Reads the columns of a CSV file. An error says what is wrong, with a hint.
    pub fn new(reader: R, format: RecordFormat) -> Result<Self, String> {
        let mut records = Self { reader, columns: None, line: 0 };
        if format == RecordFormat::Csv {
            let header = records.read_cells().map_err(|error| error.to_string())?;
            let header = header.ok_or("the file is empty (hint: its first line names the columns)")?;
            let columns = split_cells(header.trim_start_matches('\u{feff}'))?;
            for column in &columns {
                if !COLUMNS.contains(&&**column) && !column.starts_with("key.") {
                    let hint = did_you_mean(column, &COLUMNS).unwrap_or_else(|| {
                        format!("key.NAME for an attribute of the key, or {}", COLUMNS.join(", "))
                    });
                    return Err(format!("line 1: unknown column `{column}` (hint: {hint})"));
                }
            }
            records.columns = Some(columns);
        }
        Ok(records)
    }

    /// The next record that is not blank; `None` at the end.
    pub fn next(&mut self) -> io::Result<Option<Record>> {
        loop {
            let line = self.line + 1;
            let text = match &self.columns {
                None => self.read_line()?,
                Some(_) => self.read_cells()?,
            };
            let Some(text) = text else { return Ok(None) };
            let json = match &self.columns {
                _ if text.len() > RECORD_BYTES_MAX => Err(format!(
                    "the line has more than {RECORD_BYTES_MAX} bytes (hint: one override per line)"
                )),
                _ if text.trim().is_empty() => continue,
                None => Ok(text.trim().to_owned()),
                Some(columns) => split_cells(&text).and_then(|cells| cells_json(columns, cells)),
            };
            return Ok(Some(Record { line, json }));
        }
    }

    /// A line without its end. Of one that is too long, only the beginning is kept.
    fn read_line(&mut self) -> io::Result<Option<String>> {
        let mut bytes = Vec::new();
        let bytes_max = RECORD_BYTES_MAX as u64 + 1;
        if self.reader.by_ref().take(bytes_max).read_until(b'\n', &mut bytes)? == 0 {
            return Ok(None);
        }
        self.line += 1;
        if !bytes.ends_with(b"\n") && bytes.len() as u64 == bytes_max {
            self.skip_line()?;
        }
        let text = String::from_utf8_lossy(&bytes);
        Ok(Some(text.trim_end_matches(['\r', '\n']).to_owned()))
    }

    fn skip_line(&mut self) -> io::Result<()> {
        loop {
            let buffer = self.reader.fill_buf()?;
            let (used, is_end) = match buffer.iter().position(|byte| *byte == b'\n') {
                Some(end) => (end + 1, true),
                None => (buffer.len(), buffer.is_empty()),
            };
            self.reader.consume(used);
            if is_end {
                return Ok(());
            }
        }
    }

    /// A line of cells. A quoted cell may have line ends.
    fn read_cells(&mut self) -> io::Result<Option<String>> {
        let Some(mut text) = self.read_line()? else { return Ok(None) };
        while text.matches('"').count() % 2 == 1 && text.len() <= RECORD_BYTES_MAX {
            let Some(more) = self.read_line()? else { break };
            text.push('\n');
            text.push_str(&more);
        }
        Ok(Some(text))
    }
}

fn split_cells(line: &str) -> Result<Vec<String>, String> {
    let (mut cells, mut rest) = (Vec::new(), line);
    loop {
        let (cell, after) = match rest.strip_prefix('"') {
            Some(quoted) => split_quoted(quoted)?,
            None => {
                let end = rest.find(',').unwrap_or(rest.len());
                (rest[..end].trim().to_owned(), &rest[end..])
            }
        };
        cells.push(cell);
        match after.strip_prefix(',') {
            Some(after) => rest = after,
            None if after.is_empty() => return Ok(cells),
            None => {
                return Err("text follows a quoted cell (hint: write a quote within a cell twice)".to_owned());
            }
        }
    }
}

/// Splits after the closing quote.
fn split_quoted(quoted: &str) -> Result<(String, &str), String> {
    let (mut cell, mut rest) = (String::new(), quoted);
    loop {
        let Some(end) = rest.find('"') else {
            return Err("a quoted cell has no end (hint: close it with a quote)".to_owned());
        };
        cell.push_str(&rest[..end]);
        rest = &rest[end + 1..];
        match rest.strip_prefix('"') {
            Some(after) => {
                cell.push('"');
                rest = after;
            }
            None => return Ok((cell, rest)),
        }
    }
}

fn cells_json(columns: &[String], cells: Vec<String>) -> Result<String, String> {
    if cells.len() != columns.len() {
        let (cells, columns) = (cells.len(), columns.len());
        return Err(format!("{cells} cells for {columns} columns (hint: quote a cell that has a comma)"));
    }
    let (mut fields, mut key) = (Map::new(), Map::new());
    for (column, cell) in columns.iter().zip(cells).filter(|(_, cell)| !cell.is_empty()) {
        if let Some(attribute) = column.strip_prefix("key.") {
            key.insert(attribute.to_owned(), cell.into());
            continue;
        }
        let value = match column.as_str() {
            "burst" | "sub_windows" | "status" | "version" => {
                cell.parse::<u64>().map(Value::from).map_err(|_| {
                    format!(
                        "`{column}` is `{cell}`, which is not a whole number (hint: leave the cell empty)"
                    )
                })?
            }
            "unlimited" | "blocked" | "allow" => match cell.as_str() {
                "true" | "1" | "yes" => true.into(),
                "false" | "0" | "no" => false.into(),
                _ => return Err(format!("`{column}` is `{cell}` (hint: true, or leave the cell empty)")),
            },
            "expires_at" => cell.parse::<u64>().map_or_else(|_| cell.into(), Value::from),
            _ => cell.into(),
        };
        fields.insert(column.clone(), value);
    }
    fields.insert("key".to_owned(), Value::Object(key));
    Ok(Value::Object(fields).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, format: RecordFormat) -> Vec<(u64, Result<String, String>)> {
        let mut records = Records::new(text.as_bytes(), format).unwrap();
        let mut all = Vec::new();
        while let Some(Record { line, json }) = records.next().unwrap() {
            all.push((line, json));
        }
        all
    }

    #[test]
    fn json_lines_are_sent_as_they_are() {
        let lines = read("{\"a\": 1}\r\n\n  \nnot json", RecordFormat::JsonLines);
        assert_eq!(lines, [(1, Ok("{\"a\": 1}".to_owned())), (4, Ok("not json".to_owned()))]);
        let long = format!("{}\n{{}}\n", "x".repeat(3 * RECORD_BYTES_MAX));
        let lines = read(&long, RecordFormat::JsonLines);
        assert!(lines[0].1.as_ref().unwrap_err().contains("more than 65536 bytes"));
        assert_eq!(lines[1], (2, Ok("{}".to_owned())));
    }

    #[test]
    fn cells_become_fields() {
        let csv = "\u{feff}domain,rule,key.user,limit,blocked,note\r\napi,r,7,5 per second,,\"a, \"\"b\"\"\nc\"\n\
                   api,r,8,,true,\napi,r\napi,r,9,,maybe,\napi,r,9,5,,\"x\n";
        let lines = read(csv, RecordFormat::Csv);
        let json = |index: usize| lines[index].1.clone().unwrap().parse::<Value>().unwrap();
        let first = serde_json::json!({
            "domain": "api", "rule": "r", "key": { "user": "7" }, "limit": "5 per second", "note": "a, \"b\"\nc",
        });
        assert_eq!((lines[0].0, json(0)), (2, first));
        assert_eq!((lines[1].0, &json(1)["blocked"]), (4, &Value::from(true)));
        let problems: Vec<(u64, &str)> =
            lines[2..].iter().map(|(line, json)| (*line, json.as_ref().unwrap_err().as_str())).collect();
        assert!(problems[0].0 == 5 && problems[0].1.contains("2 cells for 6 columns"), "{problems:?}");
        assert!(problems[1].0 == 6 && problems[1].1.contains("maybe"), "{problems:?}");
        assert!(problems[2].0 == 7 && problems[2].1.contains("has no end"), "{problems:?}");
        let error = Records::new("domain,rul\n".as_bytes(), RecordFormat::Csv).err().unwrap();
        assert!(error.contains("did you mean `rule`?"), "{error}");
    }
}
