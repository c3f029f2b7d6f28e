//! A large catalog: memory, snapshot, cold start.

use sqlx::Connection as _;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};

use crate::child::{self, Task};
use crate::measure::alternate;
use crate::{Bar, Context, Figure, Samples, Unit, database, world};

pub(super) const ABOUT: &str = "1 000 000 objects (half stream objects, half stream-set objects \
of three ranges) in 100 000 streams, in a SQLite file that holds a snapshot. Each run is a \
process of its own; its resident memory is the system's word. The baseline of a cold start reads \
the snapshot's bytes and decodes nothing. PicoMQ needs 362 bytes an object and decodes in 0.7 s.";

pub(super) async fn run(context: &Context) -> anyhow::Result<Vec<Figure>> {
    let objects = context.size(1_000_000, 200_000, 800);
    let streams = context.size(100_000, 20_000, 80);
    let state = world::catalog(streams, objects);

    let mut encode = Samples::default();
    for _ in 0..context.rounds {
        let began = context.now();
        let payload = state.encode_snapshot();
        encode.push(context.since(began).as_secs_f64());
        drop(payload);
    }
    let payload = state.encode_snapshot();
    drop(state);

    let dir = tempfile::tempdir()?;
    let file = dir.path().join("snapshot");
    std::fs::write(&file, &payload)?;
    let path = dir.path().join("meta.db");
    let url = database::with_snapshot(&path, &payload)
        .await?
        .expose()
        .to_owned();
    let megabytes = payload.len() as f64 / 1e6;
    drop(payload);

    let mut decode = Samples::default();
    let mut resident = Samples::default();
    for _ in 0..context.rounds {
        let input = file.to_string_lossy();
        let report = child::spawn(&context.binary, Task::Decode, &input).await?;
        anyhow::ensure!(report.objects == objects, "{} objects", report.objects);
        decode.push(report.seconds);
        resident.push(report.resident as f64 / objects as f64);
    }

    let mut figures = vec![
        Figure::new(
            format!("encoding the snapshot, {megabytes:.0} MB"),
            Unit::Seconds,
            encode,
        ),
        Figure::new("decoding the snapshot", Unit::Seconds, decode),
        Figure::new("resident memory", Unit::Bytes("object"), resident)
            .must(Bar::AtMost(300.0, "PicoMQ: 362")),
    ];
    for (what, task) in [
        ("cold start of a node", Task::Open),
        ("reading the state for `aedile status`", Task::Read),
    ] {
        let mut peak = Samples::default();
        let (product, baseline) = alternate(
            context.rounds,
            async || {
                let report = child::spawn(&context.binary, task, &url).await?;
                anyhow::ensure!(report.objects == objects, "{} objects", report.objects);
                peak.push(report.peak as f64 / f64::from(1 << 20));
                Ok(report.seconds)
            },
            async || read_bytes(context, &path).await,
        )
        .await?;
        figures.push(
            Figure::new(what, Unit::Seconds, product)
                .beside("its bytes alone", baseline)
                .must(Bar::AtMost(2.0, "")),
        );
        figures.push(Figure::new(
            format!("{what}: peak memory"),
            Unit::Mebibytes,
            peak,
        ));
    }
    Ok(figures)
}

async fn read_bytes(context: &Context, path: &std::path::Path) -> anyhow::Result<f64> {
    let began = context.now();
    let options = SqliteConnectOptions::new().filename(path);
    let mut connection = SqliteConnection::connect_with(&options).await?;
    let payload: Vec<u8> = sqlx::query_scalar("SELECT payload FROM meta_snapshot WHERE id = 0")
        .fetch_one(&mut connection)
        .await?;
    let took = context.since(began).as_secs_f64();
    anyhow::ensure!(!payload.is_empty(), "a snapshot");
    connection.close().await?;
    Ok(took)
}
