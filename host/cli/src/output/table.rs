//! Columns of text.

/// Which side a column is flush with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    /// Text.
    Left,
    /// Numbers.
    Right,
}

/// Rows in columns as wide as their widest cell; the last one is never padded.
#[derive(Debug)]
pub(crate) struct Table {
    columns: Vec<(&'static str, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table of these columns.
    pub(crate) fn new(columns: &[(&'static str, Align)]) -> Self {
        Self {
            columns: columns.to_vec(),
            rows: Vec::new(),
        }
    }

    /// Add a row; a missing cell is empty.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let one_line = |cell: String| cell.replace(['\n', '\r', '\t'], " ");
        self.rows.push(cells.into_iter().map(one_line).collect());
    }

    /// The lines, headings first.
    pub(crate) fn lines(&self) -> Vec<String> {
        let heads: Vec<String> = self
            .columns
            .iter()
            .map(|(head, _)| (*head).to_owned())
            .collect();
        let widths: Vec<usize> = (0..self.columns.len())
            .map(|column| {
                let width =
                    |row: &Vec<String>| row.get(column).map_or(0, |cell| cell.chars().count());
                self.rows
                    .iter()
                    .map(width)
                    .chain([heads[column].chars().count()])
                    .max()
                    .unwrap_or(0)
            })
            .collect();
        std::iter::once(&heads)
            .chain(&self.rows)
            .map(|row| self.line(row, &widths))
            .collect()
    }

    fn line(&self, row: &[String], widths: &[usize]) -> String {
        let cells: Vec<String> = self
            .columns
            .iter()
            .zip(widths)
            .enumerate()
            .map(|(column, ((_, align), width))| {
                let cell = row.get(column).map_or("", String::as_str);
                match align {
                    Align::Left => format!("{cell:<width$}"),
                    Align::Right => format!("{cell:>width$}"),
                }
            })
            .collect();
        cells.join("  ").trim_end().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(&[("id", Align::Right), ("why", Align::Left)]);
        table.row(["7".to_owned(), "marked\nfor delete".to_owned()]);
        table.row(["1234".to_owned()]);
        assert_eq!(
            table.lines(),
            ["  id  why", "   7  marked for delete", "1234"]
        );
    }
}
