//! A database of its own for each test, on real SQLite and real PostgreSQL.
//!
//! A SQLite database is a file in a temporary directory. A PostgreSQL database
//! is made on the server that [`Server::shared`] finds or starts, and dropped
//! with its value. Nothing is skipped: without a server the test fails and says
//! what to install.

mod binaries;
mod cluster;
mod pooler;
mod proxy;
mod raw;
mod server;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU32, Ordering};

use tempfile::TempDir;

pub use cluster::Cluster;
pub use pooler::Pooler;
pub use proxy::{Lose, Proxy};
pub use raw::{Answers, Raw, Replay};
pub use server::Server;

/// Why there is no database to test on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DatabaseError {
    /// No PostgreSQL, neither running nor installed.
    #[error(
        "the tests need PostgreSQL: set AEDILE_TEST_POSTGRES_URL, or start a server on \
         127.0.0.1:5432, or install its programs (Debian and Ubuntu: apt install postgresql)"
    )]
    NotInstalled,
    /// No PgBouncer.
    #[error("this test needs PgBouncer (Debian and Ubuntu: apt install pgbouncer)")]
    NoPooler,
    /// `AEDILE_TEST_POSTGRES_URL` does not lead to a server.
    #[error("AEDILE_TEST_POSTGRES_URL: {0}")]
    Url(sqlx::Error),
    /// A program of PostgreSQL failed.
    #[error("{program} failed: {output}")]
    Program {
        /// Which.
        program: &'static str,
        /// What it said.
        output: String,
    },
    /// A private server or pooler did not come up.
    #[error("a private server in {directory} did not come up: {log}")]
    NotUp {
        /// Where it is.
        directory: String,
        /// What it logged.
        log: String,
    },
    /// Files or processes.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// The server refused a statement.
    #[error("{0}")]
    Sql(#[from] sqlx::Error),
}

/// Which database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A file.
    Sqlite,
    /// A server.
    Postgres,
}

/// A database that nobody else uses. It is gone when the value is dropped.
#[derive(Debug)]
pub struct Database {
    place: Place,
}

#[derive(Debug)]
enum Place {
    Sqlite {
        directory: TempDir,
    },
    Postgres {
        server: Arc<Server>,
        name: String,
        roles: Mutex<Vec<String>>,
    },
}

impl Database {
    /// A new database without any table.
    ///
    /// # Errors
    /// There is no server, or it refused.
    pub async fn create(kind: Kind) -> Result<Self, DatabaseError> {
        let place = match kind {
            Kind::Sqlite => Place::Sqlite {
                directory: TempDir::new()?,
            },
            Kind::Postgres => {
                let server = Server::shared().await?;
                let name = unique("aedile_test");
                server.execute(format!("CREATE DATABASE {name}")).await?;
                Place::Postgres {
                    server,
                    name,
                    roles: Mutex::default(),
                }
            }
        };
        Ok(Self { place })
    }

    /// Which database it is.
    pub fn kind(&self) -> Kind {
        match self.place {
            Place::Sqlite { .. } => Kind::Sqlite,
            Place::Postgres { .. } => Kind::Postgres,
        }
    }

    /// Its URL, in the form that `--meta-url` takes.
    pub fn url(&self) -> String {
        match &self.place {
            Place::Sqlite { directory } => {
                format!("sqlite:{}", directory.path().join("meta.db").display())
            }
            Place::Postgres { server, name, .. } => server.url(name),
        }
    }

    /// The file of a SQLite database; it may not be there yet.
    pub fn path(&self) -> Option<PathBuf> {
        match &self.place {
            Place::Sqlite { directory } => Some(directory.path().join("meta.db")),
            Place::Postgres { .. } => None,
        }
    }

    /// The directory of a SQLite database.
    pub fn directory(&self) -> Option<&Path> {
        match &self.place {
            Place::Sqlite { directory } => Some(directory.path()),
            Place::Postgres { .. } => None,
        }
    }

    /// Host and port of a PostgreSQL server.
    pub fn address(&self) -> Option<(String, u16)> {
        match &self.place {
            Place::Sqlite { .. } => None,
            Place::Postgres { server, .. } => Some(server.address()),
        }
    }

    /// The URL by way of another address: that of a proxy before the server.
    pub fn url_by(&self, host: &str, port: u16) -> Option<String> {
        match &self.place {
            Place::Sqlite { .. } => None,
            Place::Postgres { server, name, .. } => Some(server.url_by(name, host, port)),
        }
    }

    /// A new login role of a PostgreSQL database with just these grants, each
    /// the text between `GRANT` and `TO`; the URL that connects as it.
    ///
    /// # Errors
    /// The server refused.
    ///
    /// # Panics
    /// On SQLite, which has no roles.
    pub async fn role(&self, grants: &[&str]) -> Result<String, DatabaseError> {
        let Place::Postgres {
            server,
            name,
            roles,
        } = &self.place
        else {
            panic!("SQLite has no roles");
        };
        let role = unique("aedile_role");
        server
            .execute(format!("CREATE ROLE {role} LOGIN PASSWORD '{role}'"))
            .await?;
        roles
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(role.clone());
        let mut raw = self.raw().await?;
        for grant in grants {
            raw.run(&format!("GRANT {grant} TO {role}")).await?;
        }
        Ok(server.url_as(name, &role))
    }

    /// A plain connection beside any client.
    ///
    /// # Errors
    /// It cannot be had.
    pub async fn raw(&self) -> Result<Raw, DatabaseError> {
        Ok(Raw::connect(&self.url()).await?)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let Place::Postgres {
            server,
            name,
            roles,
        } = &mut self.place
        else {
            return;
        };
        let mut statements = vec![format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")];
        let roles = roles.get_mut().unwrap_or_else(PoisonError::into_inner);
        statements.extend(
            roles
                .iter()
                .map(|role| format!("DROP ROLE IF EXISTS {role}")),
        );
        server.execute_blocking(statements);
    }
}

/// A name that no other test, process or run uses.
fn unique(prefix: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let mut random = [0_u8; 6];
    getrandom::fill(&mut random).expect("the system has randomness");
    let random = random
        .iter()
        .fold(0_u64, |all, byte| all << 8 | u64::from(*byte));
    format!("{prefix}_{}_{number}_{random:x}", std::process::id())
}

/// Run an `async fn name(kind: Kind)` as a test on each database: in a module
/// `sqlite` and a module `postgres`.
#[macro_export]
macro_rules! for_each_database {
    ($($name:ident),+ $(,)?) => {
        $crate::for_each_database!(@one sqlite, Sqlite, $($name),+);
        $crate::for_each_database!(@one postgres, Postgres, $($name),+);
    };
    (@one $module:ident, $kind:ident, $($name:ident),+) => {
        mod $module {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() {
                    super::$name($crate::databases::Kind::$kind).await;
                }
            )+
        }
    };
}
