//! The PostgreSQL server that the tests share: the one named, the one that
//! listens, or a private one.

use std::sync::{Arc, Weak};
use std::time::Duration;

use aedile_clock::{SharedClock, SystemClock};
use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use tokio::sync::Mutex;

use super::{Cluster, DatabaseError};

/// Names the server to use.
const VARIABLE: &str = "AEDILE_TEST_POSTGRES_URL";

/// A server that is often there.
const USUAL: &str = "postgres://postgres@127.0.0.1:5432/postgres";

/// How long a statement on the server may take.
const LIMIT: Duration = Duration::from_secs(30);

/// A PostgreSQL server on which tests make their databases.
#[derive(Debug)]
pub struct Server {
    /// The URL of its maintenance database.
    base: url::Url,
    /// The private server, if it is one.
    _cluster: Option<Cluster>,
}

impl Server {
    /// The server that all tests of this process share. A private one stops
    /// with the last that holds it.
    ///
    /// # Errors
    /// There is none, and none can be started.
    pub async fn shared() -> Result<Arc<Self>, DatabaseError> {
        static SHARED: Mutex<Weak<Server>> = Mutex::const_new(Weak::new());
        let mut shared = SHARED.lock().await;
        if let Some(server) = shared.upgrade() {
            return Ok(server);
        }
        let server = Arc::new(Self::find().await?);
        *shared = Arc::downgrade(&server);
        Ok(server)
    }

    async fn find() -> Result<Self, DatabaseError> {
        let (url, cluster) = match std::env::var(VARIABLE) {
            Ok(url) => {
                answers(&url).await.map_err(DatabaseError::Url)?;
                (url, None)
            }
            Err(_) if answers(USUAL).await.is_ok() => (USUAL.to_owned(), None),
            Err(_) => {
                let cluster = Cluster::start().await?;
                (cluster.url("postgres"), Some(cluster))
            }
        };
        let base = url::Url::parse(&url)
            .map_err(|error| DatabaseError::Url(sqlx::Error::Configuration(error.into())))?;
        Ok(Self {
            base,
            _cluster: cluster,
        })
    }

    /// The URL of a database on it.
    pub fn url(&self, database: &str) -> String {
        let mut url = self.base.clone();
        url.set_path(database);
        url.into()
    }

    /// The URL of a database by way of another address, in the clear.
    pub fn url_by(&self, database: &str, host: &str, port: u16) -> String {
        let mut url = self.base.clone();
        url.set_path(database);
        url.set_host(Some(host)).expect("a host name");
        url.set_port(Some(port)).expect("a URL with a host");
        url.query_pairs_mut().append_pair("sslmode", "disable");
        url.into()
    }

    /// The URL of a database as a role whose password is its name.
    pub fn url_as(&self, database: &str, role: &str) -> String {
        let mut url = self.base.clone();
        url.set_path(database);
        url.set_username(role).expect("a URL with a host");
        url.set_password(Some(role)).expect("a URL with a host");
        url.into()
    }

    /// Its host and port.
    pub fn address(&self) -> (String, u16) {
        let host = self.base.host_str().unwrap_or("127.0.0.1").to_owned();
        (host, self.base.port().unwrap_or(5432))
    }

    /// Run a statement in the maintenance database.
    ///
    /// # Errors
    /// The server refused it.
    pub async fn execute(&self, statement: String) -> Result<(), sqlx::Error> {
        let mut connection = connect(self.base.as_str()).await?;
        sqlx::raw_sql(AssertSqlSafe(statement))
            .execute(&mut connection)
            .await?;
        connection.close().await
    }

    /// The same for a destructor, on a thread of its own.
    pub(super) fn execute_blocking(&self, statements: Vec<String>) {
        let url = self.base.to_string();
        let run = move || -> Result<(), sqlx::Error> {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .map_err(sqlx::Error::Io)?;
            runtime.block_on(async {
                let mut connection = connect(&url).await?;
                for statement in statements {
                    sqlx::raw_sql(AssertSqlSafe(statement))
                        .execute(&mut connection)
                        .await?;
                }
                connection.close().await
            })
        };
        match std::thread::spawn(run).join() {
            Ok(Ok(())) => {}
            // A destructor may run while a test fails: it only tells.
            Ok(Err(error)) => eprintln!("a test's database was not dropped: {error}"),
            Err(_) => eprintln!("a test's database was not dropped"),
        }
    }
}

/// Whether a server answers there.
pub(super) async fn answers(url: &str) -> Result<(), sqlx::Error> {
    connect(url).await?.close().await
}

async fn connect(url: &str) -> Result<PgConnection, sqlx::Error> {
    let options: PgConnectOptions = url.parse()?;
    let clock: SharedClock = Arc::new(SystemClock);
    clock
        .timeout(LIMIT, PgConnection::connect_with(&options))
        .await
        .map_err(|_| sqlx::Error::PoolTimedOut)?
}
