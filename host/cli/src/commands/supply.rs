//! `aedile plugin verify`, `push` and `pull`: signatures and registries. None
//! of them touches a cluster.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use aedile_engine::{Engine, EngineOptions, Inspection};
use aedile_supply::{
    OciReference, Package, Registry, SupplyError, Trust, read_signature, sha256_hex,
};
use anyhow::Context;
use clap::ArgMatches;
use serde_json::json;

use crate::commands;
use crate::config::{Config, ConfigError};
use crate::exit::Exit;
use crate::output;
use crate::settings;

/// Check a module's signature.
pub(crate) async fn verify(config: &Config, leaf: &ArgMatches) -> anyhow::Result<Exit> {
    let json = config.switch(settings::JSON)?;
    if config.text(settings::TRUSTED_KEYS).is_none() {
        return Err(ConfigError::Missing {
            setting: settings::TRUSTED_KEYS,
        }
        .into());
    }
    let trust = Trust::new(config.trust()?.keys().clone(), true)?;
    let file = file(leaf);
    let module = read(&file)?;
    let signature = signature(config, &file)?;
    let verdict = trust
        .check(&module, signature.as_deref())
        .with_context(|| format!("{} is refused", file.display()))?;
    let digest = sha256_hex(&module);
    if json {
        output::json(&json!({ "digest": digest, "signature": verdict }))?;
    } else {
        output::line(&format!("digest     {digest}"));
        output::line(&format!("signature  {verdict}"));
    }
    Ok(Exit::Ok)
}

/// Push a module to a registry.
pub(crate) async fn push(config: &Config, leaf: &ArgMatches) -> anyhow::Result<Exit> {
    let json = config.switch(settings::JSON)?;
    let reference = reference(leaf)?;
    let file = file(leaf);
    let module = read(&file)?;
    let found = inspect(&module).with_context(|| format!("{} is refused", file.display()))?;
    let signature = signature(config, &file)?;
    let verdict = config
        .trust()?
        .check(&module, signature.as_deref())
        .with_context(|| format!("{} is refused", file.display()))?;
    let registry = Registry::new(config.registry()?, commands::clock())?;
    let signed = signature.is_some();
    let package = Package {
        module,
        title: found.manifest.name,
        version: found.manifest.version,
        description: found.manifest.description,
        signature,
    };
    let pinned = registry.push(&reference, &package).await?;
    if json {
        output::json(&json!({
            "name": package.title,
            "version": package.version,
            "digest": found.digest,
            "reference": pinned.to_string(),
            "signed": signed,
            "signature": verdict,
        }))?;
        return Ok(Exit::Ok);
    }
    output::line(&format!("{} {}", package.title, package.version));
    output::line(&format!("digest     {}", found.digest));
    output::line(&format!("pushed     {reference}"));
    output::line(&format!("which is   {pinned}"));
    output::line(&format!(
        "signature  {}",
        if signed { "pushed with it" } else { "none" }
    ));
    Ok(Exit::Ok)
}

/// Pull a module into a file.
pub(crate) async fn pull(config: &Config, leaf: &ArgMatches) -> anyhow::Result<Exit> {
    let json = config.switch(settings::JSON)?;
    let reference = reference(leaf)?;
    let trust = config.trust()?;
    let registry = Registry::new(config.registry()?, commands::clock())?;
    let pulled = registry.pull(&reference).await?;
    let refused = || format!("the module at {reference} is refused");
    let verdict = trust
        .check(&pulled.module, pulled.signature.as_deref())
        .with_context(refused)?;
    let found = inspect(&pulled.module).with_context(refused)?;
    let path = match config.text(settings::OUTPUT) {
        Some(path) => PathBuf::from(path),
        None => PathBuf::from(format!("{}.wasm", found.manifest.name)),
    };
    // The signature first: a module without one would be taken for unsigned.
    let beside = beside(&path);
    if path.exists() {
        return Err(exists(&path));
    }
    if let Some(signature) = &pulled.signature {
        create(&beside, signature.as_bytes())?;
    }
    create(&path, &pulled.module)?;
    if json {
        output::json(&json!({
            "name": found.manifest.name,
            "version": found.manifest.version,
            "digest": found.digest,
            "reference": pulled.reference.to_string(),
            "file": path,
            "signed": pulled.signature.is_some(),
            "signature": verdict,
        }))?;
        return Ok(Exit::Ok);
    }
    output::line(&format!(
        "{} {}",
        found.manifest.name, found.manifest.version
    ));
    output::line(&format!("digest     {}", found.digest));
    output::line(&format!("pulled     {}", pulled.reference));
    output::line(&format!("file       {}", path.display()));
    output::line(&format!("signature  {verdict}"));
    Ok(Exit::Ok)
}

fn inspect(module: &[u8]) -> anyhow::Result<Inspection> {
    let engine = Engine::new(EngineOptions::default(), commands::clock())?;
    Ok(engine.inspect(module)?)
}

fn file(leaf: &ArgMatches) -> PathBuf {
    leaf.get_one::<PathBuf>("file").cloned().unwrap_or_default()
}

fn reference(leaf: &ArgMatches) -> Result<OciReference, SupplyError> {
    let text = leaf.get_one::<String>("reference");
    text.map_or("", String::as_str).parse()
}

fn read(file: &Path) -> Result<Vec<u8>, ConfigError> {
    std::fs::read(file).map_err(|error| ConfigError::Argument {
        what: file.display().to_string(),
        reason: format!("the file cannot be read: {error}"),
    })
}

/// Where minisign puts a file's signature.
fn beside(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".minisig");
    PathBuf::from(name)
}

/// The signature that was named, or the one that lies beside the module.
pub(crate) fn signature(config: &Config, file: &Path) -> Result<Option<String>, SupplyError> {
    if let Some(path) = config.text(settings::SIGN_FILE) {
        return read_signature(Path::new(path)).map(Some);
    }
    let beside = beside(file);
    if beside.exists() {
        read_signature(&beside).map(Some)
    } else {
        Ok(None)
    }
}

fn exists(path: &Path) -> anyhow::Error {
    ConfigError::Argument {
        what: path.display().to_string(),
        reason: "there is a file already; name another with --output".to_owned(),
    }
    .into()
}

/// A new file.
fn create(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let made = OpenOptions::new().write(true).create_new(true).open(path);
    let written = made.and_then(|mut file| file.write_all(bytes));
    written.map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => exists(path),
        _ => ConfigError::Argument {
            what: path.display().to_string(),
            reason: format!("the file cannot be written: {error}"),
        }
        .into(),
    })
}
