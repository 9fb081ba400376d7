//! Tables as libvirt's program prints them.

/// A table with these heads, which quiet mode leaves out.
pub(super) fn table(heads: &[&str], rows: &[Vec<String>], quiet: bool) -> String {
    let width = |at: usize| {
        let cells = rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count());
        let head = heads.get(at).filter(|_| !quiet).map_or(0, |head| head.len());
        cells.chain([head]).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    let line = |cells: &[String]| {
        let last = cells.len().saturating_sub(1);
        let padded: Vec<String> = cells
            .iter()
            .zip(&widths)
            .enumerate()
            .map(|(at, (cell, width))| if at == last { cell.clone() } else { format!("{cell:<width$}") })
            .collect();
        format!(" {}\n", padded.join("   "))
    };
    let mut text = String::new();
    if !quiet {
        let heads: Vec<String> = heads.iter().map(|head| (*head).to_owned()).collect();
        text += &line(&heads);
        text += &"-".repeat(widths.iter().map(|width| width + 3).sum());
        text.push('\n');
    }
    rows.iter().for_each(|row| text += &line(row));
    text
}
