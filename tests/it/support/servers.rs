//! Real servers on loopback: lighttpd with TLS and token authentication before git's own http-backend,
//! OpenSSH's sshd, and small ones that answer as a test says or break off.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::host::skipped;
use super::{Sandbox, write};

/// A server that is another program; it ends with the value.
pub(crate) struct Server {
    child: Child,
    pub(crate) port: u16,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A port that nobody listens on now.
fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    listener.local_addr().expect("an address").port()
}

/// The place of a server's program, which need not be on PATH.
fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/usr/local/sbin", "/sbin"].map(PathBuf::from);
    let found = std::env::split_paths(&path).chain(system).map(|d| d.join(name)).find(|p| p.is_file());
    if found.is_none() {
        skipped(&format!("{name} is not installed"));
    }
    found
}

/// Starts a server on a free port; another process may take the port first, so a few times.
fn started(configure: impl Fn(u16) -> Command) -> Server {
    for _ in 0..8 {
        let port = free_port();
        let mut command = configure(port);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let mut child = command.spawn().expect("the server starts");
        let since = Instant::now();
        while since.elapsed() < Duration::from_secs(10) {
            if child.try_wait().expect("a status").is_some() {
                break;
            }
            if TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok() {
                return Server { child, port };
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = child.kill();
        let _ = child.wait();
    }
    panic!("the server does not come up");
}

/// How a git host is set up.
#[derive(Clone, Copy, Default)]
pub(crate) struct Host<'a> {
    /// The password that it wants from `x-access-token`; none: everybody may come in.
    pub(crate) token: Option<&'a str>,
    /// Its certificate is of yesterday.
    pub(crate) expired: bool,
    /// Without TLS.
    pub(crate) plain: bool,
}

impl Sandbox {
    /// A git host for the bare repositories in `srv/`; `None`, said on stderr, without lighttpd.
    pub(crate) fn git_host(&self, host: Host<'_>) -> Option<Server> {
        let lighttpd = program("lighttpd")?;
        let server = started(|port| {
            let config = self.server_directory(port).join("lighttpd.conf");
            fs::write(&config, self.lighttpd_config(port, host)).expect("a configuration");
            let mut command = self.command(&lighttpd);
            command.arg("-D").arg("-f").arg(config).stderr(Stdio::null());
            command
        });
        Some(server)
    }

    /// What servers keep is no place where a token could leak to.
    fn server_directory(&self, port: u16) -> PathBuf {
        let directory = self.path(&format!("secret/server-{port}"));
        fs::create_dir_all(&directory).expect("a directory");
        directory
    }

    fn lighttpd_config(&self, port: u16, host: Host<'_>) -> String {
        let directory = self.server_directory(port);
        let place = directory.display();
        let backend = Path::new(&self.git(&self.root, &["--exec-path"])).join("git-http-backend");
        let mut text = format!(
            r#"server.document-root = "{place}"
server.bind = "127.0.0.1"
server.port = {port}
server.errorlog = "{place}/error.log"
server.upload-dirs = ( "{place}" )
server.stream-response-body = 1
server.modules = ( "mod_alias", "mod_setenv", "mod_auth", "mod_authn_file", "mod_cgi", "mod_openssl" )
alias.url = ( "/git" => "{backend}" )
cgi.assign = ( "" => "" )
setenv.add-environment = ( "GIT_PROJECT_ROOT" => "{srv}", "GIT_HTTP_EXPORT_ALL" => "1", "HOME" => "{home}", "PATH" => "{path}" )
"#,
            backend = backend.display(),
            srv = self.path("srv").display(),
            home = self.path("home").display(),
            path = std::env::var("PATH").unwrap_or_default(),
        );
        if let Some(token) = host.token {
            write(&directory, "users", format!("x-access-token:{token}\n"));
            let _ = write!(
                text,
                r#"auth.backend = "plain"
auth.backend.plain.userfile = "{place}/users"
auth.require = ( "/" => ( "method" => "basic", "realm" => "git", "require" => "valid-user" ) )
"#
            );
        }
        if !host.plain {
            let certificate = self.certificate(host.expired);
            let key = self.path("secret/tls/server.key");
            let _ = write!(
                text,
                "ssl.engine = \"enable\"\nssl.pemfile = \"{}\"\nssl.privkey = \"{}\"\n",
                certificate.display(),
                key.display()
            );
        }
        text
    }

    /// A certificate for loopback, of an authority that the sandbox's git trusts.
    fn certificate(&self, expired: bool) -> PathBuf {
        let directory = self.path("secret/tls");
        let openssl = |args: &str| {
            let output = self.command("openssl").args(args.split(' ')).current_dir(&directory).output();
            let output = output.expect("openssl runs");
            assert!(output.status.success(), "{args}: {}", String::from_utf8_lossy(&output.stderr));
        };
        let new = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
        if !directory.is_dir() {
            write(&directory, "names", "subjectAltName=DNS:localhost,IP:127.0.0.1\n");
            openssl(&format!("req -x509 {new} -keyout ca.key -out ca.pem -subj /CN=isofold-test -days 2"));
            openssl(&format!("req {new} -keyout server.key -out server.csr -subj /CN=localhost"));
            self.git(
                &self.root,
                &["config", "--global", "http.sslCAInfo", directory.join("ca.pem").to_str().expect("UTF-8")],
            );
        }
        let (name, days) = if expired { ("expired.pem", "-1") } else { ("server.pem", "2") };
        openssl(&format!(
            "x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days {days} -extfile names -out {name}"
        ));
        directory.join(name)
    }

    /// An sshd that lets the sandbox's key in; git in the sandbox uses it as configured there. `None`,
    /// said on stderr, without one.
    pub(crate) fn ssh_host(&self) -> Option<Server> {
        let sshd = program("sshd")?;
        let directory = self.path("secret/ssh");
        fs::create_dir_all(&directory).expect("a directory");
        if super::host::is_root() {
            // Where Debian's package was not started there is none.
            fs::create_dir_all("/run/sshd").expect("the directory of sshd");
        }
        for name in ["host", "user"] {
            let mut keygen = self.command("ssh-keygen");
            keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(directory.join(name));
            assert!(keygen.status().expect("ssh-keygen runs").success());
        }
        let place = directory.display();
        let server = started(|port| {
            let text = format!(
                "ListenAddress 127.0.0.1:{port}\nHostKey {place}/host\nAuthorizedKeysFile {place}/user.pub\nUsePAM no\n\
                 StrictModes no\nPidFile none\nPasswordAuthentication no\nPermitRootLogin yes\nSetEnv PATH={}\n",
                std::env::var("PATH").unwrap_or_default()
            );
            fs::write(directory.join("sshd_config"), text).expect("a configuration");
            let mut command = self.command(&sshd);
            command.arg("-D").arg("-e").arg("-f").arg(directory.join("sshd_config"));
            command.stderr(fs::File::create(directory.join("log")).expect("a log"));
            command
        });
        let known = fs::read_to_string(directory.join("host.pub")).expect("a key");
        write(&directory, "known", format!("[127.0.0.1]:{} {known}", server.port));
        // The configuration of the machine: what stands in for ~/.ssh, which ssh looks for elsewhere.
        let ssh = format!(
            "#!/bin/sh\nenv > {place}/seen\nexec ssh -F none -i {place}/user -o IdentitiesOnly=yes \
             -o UserKnownHostsFile={place}/known \"$@\"\n"
        );
        write(&directory, "ssh", ssh);
        fs::set_permissions(directory.join("ssh"), fs::Permissions::from_mode(0o755)).expect("a mode");
        let command = format!("{place}/ssh");
        self.git(&self.root, &["config", "--global", "core.sshCommand", &command]);
        Some(server)
    }

    /// A bare repository in `srv/`, with whatever `make` puts into a checkout of it first.
    pub(crate) fn served(&self, name: &str, make: impl FnOnce(&Path)) -> PathBuf {
        let work = self.empty_repo(&format!("work-{name}"));
        make(&work);
        let bare = self.path(&format!("srv/{name}.git"));
        let (from, to) = (work.to_str().expect("UTF-8"), bare.to_str().expect("UTF-8"));
        self.git(&self.root, &["clone", "-q", "--bare", from, to]);
        self.git(&bare, &["config", "http.receivepack", "true"]);
        bare
    }
}

/// Answers each request as it is told to, and remembers the heads of all of them.
pub(crate) struct Responder {
    pub(crate) port: u16,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Responder {
    /// `answer` makes a whole response of the head of a request.
    pub(crate) fn start(answer: impl Fn(&str) -> String + Send + 'static) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let heads = Arc::new(Mutex::new(Vec::new()));
        let seen = heads.clone();
        // It ends with the test's process; it holds nothing but the port.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { continue };
                let mut head = String::new();
                let mut reader = BufReader::new(stream.try_clone().expect("a stream"));
                while reader.read_line(&mut head).is_ok_and(|read| read > 2) {}
                let response = answer(&head);
                seen.lock().expect("heads").push(head);
                let _ = stream.write_all(response.as_bytes());
                let _ = stream.shutdown(Shutdown::Write);
                let _ = stream.read_to_end(&mut Vec::new());
            }
        });
        Self { port, heads }
    }

    /// The heads of all requests.
    pub(crate) fn heads(&self) -> Vec<String> {
        self.heads.lock().expect("heads").clone()
    }
}

/// A response that closes the connection.
pub(crate) fn response(status: &str, headers: &[&str], body: &str) -> String {
    let headers: String = headers.iter().flat_map(|header| [header, "\r\n"]).collect();
    format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
}

/// Passes connections on to a port of loopback, and cuts each off after so many bytes of answer.
pub(crate) fn cut_off(to: u16, after: u64) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (Ok(client), Ok(server)) = (client, TcpStream::connect((Ipv4Addr::LOCALHOST, to))) else { continue };
            let (mut from, mut into) = (client.try_clone().expect("a stream"), server.try_clone().expect("a stream"));
            std::thread::spawn(move || drop(std::io::copy(&mut from, &mut into)));
            std::thread::spawn(move || {
                let _ = std::io::copy(&mut (&server).take(after), &mut &client);
                let _ = client.shutdown(Shutdown::Both);
                let _ = server.shutdown(Shutdown::Both);
            });
        }
    });
    port
}

/// Looks again and again at every process, for one that knows what it must not.
pub(crate) struct Watch {
    over: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<(usize, Vec<String>)>,
}

impl Watch {
    /// `forms`: the token as no argument may hold it; `may` says by its arguments whether a process
    /// that descends from this one's `isofold` may have it in its environment.
    pub(crate) fn start(root: u32, forms: Vec<String>, may: fn(&str) -> bool) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let ended = over.clone();
        let look = move || {
            let (mut looks, mut found) = (0, Vec::new());
            loop {
                // Once more after the end: what is left then is a leak, too.
                let last = ended.load(Ordering::SeqCst);
                sample(root, &forms, may, &mut found);
                looks += 1;
                if last {
                    return (looks, found);
                }
                std::thread::sleep(Duration::from_millis(4));
            }
        };
        Self { over, thread: std::thread::spawn(look) }
    }

    /// How often it looked, and what it found.
    pub(crate) fn finish(self) -> (usize, Vec<String>) {
        self.over.store(true, Ordering::SeqCst);
        self.thread.join().expect("the watch ends")
    }
}

fn sample(root: u32, forms: &[String], may: fn(&str) -> bool, found: &mut Vec<String>) {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    for process in processes.filter(|p| p.file_name().to_string_lossy().bytes().all(|b| b.is_ascii_digit())) {
        let read = |name: &str| {
            let bytes = fs::read(process.path().join(name)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).replace('\0', " ")
        };
        let arguments = read("cmdline");
        let holds = |text: &str| forms.iter().any(|form| text.contains(form.as_str()));
        // It ends, or starts another program just now.
        if arguments.is_empty() {
            continue;
        }
        if holds(&arguments) {
            found.push(format!("arguments: {arguments}"));
        }
        let pid = process.file_name().to_string_lossy().parse().unwrap_or(0);
        if holds(&read("environ")) && !may(&arguments) && descends(pid, root) {
            found.push(format!("environment of: {arguments}"));
        }
    }
}

fn descends(mut pid: u32, root: u32) -> bool {
    while pid > 1 && pid != root {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let after = stat.rsplit(')').next().unwrap_or_default();
        pid = after.split_whitespace().nth(1).and_then(|parent| parent.parse().ok()).unwrap_or(0);
    }
    pid == root
}
