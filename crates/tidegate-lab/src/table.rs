//! Plain-text tables.

use std::fmt;

/// A title, a heading and rows. The first column is text, the others are figures.
pub(crate) struct Table {
    title: String,
    /// Starts with the heading, if there is one.
    rows: Vec<Vec<String>>,
    notes: Vec<String>,
}

impl Table {
    pub(crate) fn new(
        title: impl Into<String>,
        heading: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        let heading = heading.into_iter().map(Into::into).collect();
        Self { title: title.into(), rows: vec![heading], notes: Vec::new() }
    }

    pub(crate) fn without_heading(title: impl Into<String>) -> Self {
        Self { title: title.into(), rows: Vec::new(), notes: Vec::new() }
    }

    /// Adds a row. Missing cells at its end stay empty.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Adds a line below the table.
    pub(crate) fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width =
            |column: usize| self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.len()).max();
        let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
        writeln!(f, "\n{}", self.title)?;
        for row in &self.rows {
            let mut line = String::from(" ");
            for (at, (cell, width)) in row.iter().zip(&widths).enumerate() {
                let padded = if at == 0 { format!(" {cell:<width$}") } else { format!("   {cell:>width$}") };
                line.push_str(&padded);
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        for note in &self.notes {
            writeln!(f, "  {note}")?;
        }
        Ok(())
    }
}
