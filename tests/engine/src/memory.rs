//! What this process takes of the machine.

/// Memory of this process that is in use now, in bytes.
///
/// # Panics
/// If the system does not tell: it is Linux's own file.
pub fn resident() -> usize {
    figure("VmRSS:")
}

/// The most memory that this process takes while something is done.
#[derive(Debug)]
pub struct Peak {
    before: usize,
}

impl Peak {
    /// From now on.
    ///
    /// # Panics
    /// If the system does not let the figure begin anew.
    pub fn start() -> Self {
        std::fs::write("/proc/self/clear_refs", "5").expect("Linux's own file");
        Self { before: resident() }
    }

    /// How many bytes more than at its start there were at any moment.
    ///
    /// # Panics
    /// As [`resident`].
    pub fn more(&self) -> usize {
        figure("VmHWM:").saturating_sub(self.before)
    }
}

fn figure(name: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux's own file");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .expect("a line about it");
    let kibibytes: usize = line
        .trim()
        .trim_end_matches(" kB")
        .parse()
        .expect("a number");
    kibibytes << 10
}
