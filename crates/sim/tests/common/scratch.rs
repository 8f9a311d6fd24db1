//! A folder of files for one test, removed at its end.

use std::path::PathBuf;

/// The folder.
pub struct Scratch(PathBuf);

impl Scratch {
    /// An empty folder that no other test and no other process has.
    pub fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("armillary-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("the folder for temporary files can be written");
        Scratch(path)
    }

    /// The path of a file in it.
    pub fn file(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    /// Writes a file and returns its path.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.file(name);
        std::fs::write(&path, content).expect("a temporary file can be written");
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
