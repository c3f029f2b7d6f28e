//! The service as a process: it answers, its maintenance works, it ends well.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use aedile_tests_contract::databases::Kind;
use aedile_tests_e2e::outside;
use aedile_tests_e2e::site::Site;
use aedile_tests_e2e::wait::until;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

const BOUND: Duration = Duration::from_secs(120);

/// The service; ended with the test.
struct Service {
    child: Child,
    address: SocketAddr,
}

impl Service {
    fn start(site: &Site) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_aedile-example-embedding"))
            .args([site.url(), "--", &site.storage(), "127.0.0.1:0"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("the service starts");
        let stdout = child.stdout.take().expect("its output");
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        let address = line.trim().strip_prefix("listening on ");
        let address = address.unwrap_or_else(|| panic!("{line:?}"));
        Self {
            child,
            address: address.parse().expect("an address"),
        }
    }

    fn get(&self, path: &str) -> Value {
        let mut stream = TcpStream::connect(self.address).expect("a connection");
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: service\r\nConnection: close\r\n\r\n"
        )
        .expect("a request");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let (_, body) = answer.split_once("\r\n\r\n").expect("a body");
        serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"))
    }

    fn stop(mut self) {
        let pid = i32::try_from(self.child.id()).expect("a process id");
        kill(Pid::from_raw(pid), Signal::SIGTERM).expect("a signal");
        let status = self.child.wait().expect("it ends");
        assert!(status.success(), "{status}");
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn a_service_with_the_runtime_inside_cleans_its_cluster() {
    let site = Site::new(Kind::Sqlite, 5, 20).await;
    let service = Service::start(&site);
    assert_eq!(service.get("/")["service"], "an example");
    let (status, _) = until("an empty queue", BOUND, async || {
        let status = service.get("/maintenance");
        let drained = status["role"] == "holder" && status["backlog"]["destroyed"] == 0;
        drained.then_some(status)
    })
    .await;
    assert_eq!(status["problems"], Value::Array(Vec::new()), "{status}");
    let plugins = status["plugins"].as_array().expect("plugins");
    let names: Vec<_> = plugins
        .iter()
        .map(|plugin| plugin["name"].as_str())
        .collect();
    assert_eq!(names, [Some("cleaner"), Some("expiry")]);
    let files = outside::files(&site.objects());
    assert_eq!(files.len(), 5, "the live objects are there and no others");

    // Its end releases the lease, so that the next holder need not wait.
    service.stop();
    let lease = outside::lease(&mut site.raw().await)
        .await
        .expect("a lease");
    assert_eq!(lease.expires, 0, "{lease:?}");
}
