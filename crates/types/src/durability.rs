//! Durability levels: the failures that an acknowledged command survives.

use core::fmt;
use core::str::FromStr;

/// The durability level of a log: the failures that an acknowledged command survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Durability {
    /// None: lost with the process.
    Memory,
    /// A crash of the process: the bytes are in the operating system's page cache.
    Os,
    /// Power loss: synced to the disk before the acknowledgement.
    #[default]
    Disk,
}

/// The error for a text that does not name a durability level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownDurability(pub String);

impl fmt::Display for UnknownDurability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown durability {:?}: want memory, os or disk", self.0)
    }
}

impl std::error::Error for UnknownDurability {}

impl FromStr for Durability {
    type Err = UnknownDurability;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "memory" => Ok(Durability::Memory),
            "os" => Ok(Durability::Os),
            "disk" => Ok(Durability::Disk),
            other => Err(UnknownDurability(other.to_owned())),
        }
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Durability::Memory => "memory",
            Durability::Os => "os",
            Durability::Disk => "disk",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_reads_back() {
        for level in [Durability::Memory, Durability::Os, Durability::Disk] {
            assert_eq!(level.to_string().parse(), Ok(level));
        }
        assert!("fsync".parse::<Durability>().is_err());
    }
}
