//! `cargo run -p generate`: writes every generated file of the repository that has changed.

use std::io;
use std::path::Path;

fn main() -> io::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for output in generate::outputs(&root)? {
        let path = root.join(output.path);
        if std::fs::read_to_string(&path).ok().as_deref() != Some(output.text.as_str()) {
            std::fs::write(&path, output.text)?;
            println!("{}", output.path);
        }
    }
    Ok(())
}
