//! The baseline of a takeover: a contender that looks at the row every quarter
//! of the TTL and is woken by nothing, as PicoMQ's nodes contend.

use std::time::Duration;

use aedile_clock::SharedClock;
use sqlx::Connection as _;
use sqlx::postgres::PgConnection;

/// A row that polling contenders share; on PostgreSQL.
pub(crate) struct Polling {
    url: String,
    clock: SharedClock,
    ttl: Duration,
}

impl Polling {
    /// Make the table.
    pub(crate) async fn new(
        url: String,
        clock: SharedClock,
        ttl: Duration,
    ) -> anyhow::Result<Self> {
        let polling = Self { url, clock, ttl };
        let mut connection = PgConnection::connect(&polling.url).await?;
        sqlx::query(
            "CREATE TABLE bench_lease (id BIGINT PRIMARY KEY, holder TEXT NOT NULL, \
             epoch BIGINT NOT NULL, expires_at_ms BIGINT NOT NULL)",
        )
        .execute(&mut connection)
        .await?;
        connection.close().await?;
        Ok(polling)
    }

    /// One handover of the lease `id`: the holder holds it, the follower polls;
    /// `after` the follower's first look the holder goes, by a release or
    /// without a word. The milliseconds until the follower has it.
    pub(crate) async fn handover(
        &self,
        id: i64,
        after: Duration,
        release: bool,
    ) -> anyhow::Result<f64> {
        let mut holder = PgConnection::connect(&self.url).await?;
        let mut follower = PgConnection::connect(&self.url).await?;
        sqlx::query("INSERT INTO bench_lease VALUES ($1, '', 0, 0)")
            .bind(id)
            .execute(&mut holder)
            .await?;
        anyhow::ensure!(
            self.acquire(&mut holder, id, "holder").await?,
            "a free lease"
        );
        let interval = self.ttl / 4;
        let follow = async {
            loop {
                if self.acquire(&mut follower, id, "follower").await? {
                    return anyhow::Ok(self.clock.boot());
                }
                self.clock.sleep(interval).await;
            }
        };
        let go = async {
            // It renews until it goes.
            let mut left = after;
            while left > interval {
                self.clock.sleep(interval).await;
                anyhow::ensure!(self.acquire(&mut holder, id, "holder").await?, "a renewal");
                left -= interval;
            }
            self.clock.sleep(left).await;
            let gone = self.clock.boot();
            if release {
                sqlx::query("UPDATE bench_lease SET expires_at_ms = 0 WHERE id = $1")
                    .bind(id)
                    .execute(&mut holder)
                    .await?;
            }
            anyhow::Ok(gone)
        };
        let (taken, gone) = tokio::try_join!(follow, go)?;
        Ok(taken.since(gone).as_secs_f64() * 1000.0)
    }

    async fn acquire(
        &self,
        connection: &mut PgConnection,
        id: i64,
        name: &str,
    ) -> anyhow::Result<bool> {
        let now = self.clock.unix().0;
        let ttl = i64::try_from(self.ttl.as_millis())?;
        let updated = sqlx::query(
            "UPDATE bench_lease SET holder = $2, epoch = epoch + 1, expires_at_ms = $4 \
             WHERE id = $1 AND (expires_at_ms < $3 OR holder = $2)",
        )
        .bind(id)
        .bind(name)
        .bind(now)
        .bind(now + ttl)
        .execute(connection)
        .await?;
        Ok(updated.rows_affected() == 1)
    }
}
