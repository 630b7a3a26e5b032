//! The login recipe of `docs/recipes.md` under attack. Guesses are few, and the owner of the account gets in all the time.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tidegate::rules::{self, AnswerKind, Descriptor, Entry, Request};
use tidegate::{Engine, MEMORY_BYTES_DEFAULT, ManualClock, MemoryStore};

use super::recipes::recipe_rules;

const THREADS: usize = 8;
const HOUR: Duration = Duration::from_secs(3600);

/// A login service as the recipe describes it.
struct LoginService {
    engine: Engine<ManualClock>,
    clock: ManualClock,
}

/// One attempt.
#[derive(Clone, Copy)]
struct Attempt<'a> {
    user: &'a str,
    ip: &'a str,
    /// The name in a cookie that the service has signed for this user.
    device: Option<&'a str>,
    knows_password: bool,
    has_second_factor: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Login {
    Succeeded,
    /// The password was looked at, and is wrong: the guess was worth something.
    WrongPassword,
    NeedsSecondFactor,
    Denied,
}

impl LoginService {
    fn new() -> Self {
        let clock = ManualClock::default();
        let domains = rules::parse("rules.yaml", &recipe_rules("Protect the login")).expect("rules").domains;
        let store = MemoryStore::bounded(MEMORY_BYTES_DEFAULT).into();
        let engine = Engine::with_store(domains, store, clock.clone()).expect("an engine");
        Self { engine, clock }
    }

    fn log_in(&self, attempt: Attempt<'_>) -> Login {
        let Attempt { user, ip, device, knows_password, has_second_factor } = attempt;
        let entry = |key, value| Entry { key, value };
        let mut entries =
            vec![entry("method", "POST"), entry("path", "/login"), entry("user", user), entry("ip", ip)];
        entries.extend(device.map(|device| entry("device", device)));
        let request = Request { domain: "api", descriptors: &[Descriptor::new(&entries, 1)] };
        let kind = self.engine.check(&request).expect("an answer").kind;
        match kind {
            AnswerKind::Denied => return Login::Denied,
            AnswerKind::Soft if !has_second_factor => return Login::NeedsSecondFactor,
            AnswerKind::Allowed | AnswerKind::Soft => {}
            other => panic!("{other:?}"),
        }
        if !knows_password {
            return Login::WrongPassword;
        }
        self.engine.refund(&request, None).expect("a refund");
        Login::Succeeded
    }
}

const OWNER: Attempt<'static> = Attempt {
    user: "alice",
    ip: "198.51.100.7",
    device: Some("laptop"),
    knows_password: true,
    has_second_factor: true,
};
const GUESS: Attempt<'static> = Attempt {
    user: "alice",
    ip: "203.0.113.9",
    device: None,
    knows_password: false,
    has_second_factor: false,
};

/// Makes these attempts on several threads at once, and between them logs the owner in on the known device. Returns how
/// many guesses were worth something.
fn attack(service: &LoginService, attempts: &[Attempt<'_>]) -> u32 {
    let guesses = AtomicU32::new(0);
    let start = Barrier::new(THREADS + 1);
    std::thread::scope(|scope| {
        for attempts in attempts.chunks(attempts.len().div_ceil(THREADS)) {
            let (guesses, start) = (&guesses, &start);
            scope.spawn(move || {
                start.wait();
                let tested =
                    attempts.iter().filter(|attempt| service.log_in(**attempt) == Login::WrongPassword);
                guesses.fetch_add(u32::try_from(tested.count()).expect("few"), Ordering::Relaxed);
            });
        }
        start.wait();
        for _ in 0..50 {
            assert_eq!(service.log_in(Attempt { has_second_factor: false, ..OWNER }), Login::Succeeded);
        }
    });
    guesses.into_inner()
}

#[test]
fn a_thousand_parallel_guesses_from_one_address() {
    let service = LoginService::new();
    assert_eq!(attack(&service, &[GUESS; 1000]), 5);
    // On a new device too, even without a second factor.
    let new_device = Attempt { device: None, has_second_factor: false, ..OWNER };
    assert_eq!(service.log_in(new_device), Login::Succeeded);
    // On a known device behind the same address as the attacker.
    assert_eq!(service.log_in(Attempt { ip: GUESS.ip, ..OWNER }), Login::Succeeded);
    service.clock.advance(HOUR);
    assert_eq!(attack(&service, &[GUESS; 1000]), 5);
}

#[test]
fn one_password_for_a_thousand_accounts() {
    let service = LoginService::new();
    let users: Vec<String> = (0..1000).map(|number| format!("user-{number}")).collect();
    let attempts: Vec<_> = users.iter().map(|user| Attempt { user, ..GUESS }).collect();
    assert_eq!(attack(&service, &attempts), 50);
    // From a network of IPv6 with a new /64 for each guess.
    let addresses: Vec<String> = (0..1000).map(|number| format!("2001:db8:0:{number:x}::1")).collect();
    let attempts: Vec<_> =
        users.iter().zip(&addresses).map(|(user, ip)| Attempt { user, ip, ..GUESS }).collect();
    assert_eq!(attack(&service, &attempts), 200);
}

#[test]
fn guesses_from_a_thousand_addresses() {
    let service = LoginService::new();
    let addresses: Vec<String> =
        (0..1000).map(|number| format!("10.0.{}.{}", number / 250, number % 250)).collect();
    let attempts: Vec<_> = addresses.iter().map(|ip| Attempt { ip, ..GUESS }).collect();
    for _ in 0..3 {
        assert_eq!(attack(&service, &attempts), 20);
        // The owner on a new device proves it by a second factor, and is never locked out.
        let new_device = Attempt { device: None, ..OWNER };
        assert_eq!(service.log_in(new_device), Login::Succeeded);
        assert_eq!(
            service.log_in(Attempt { has_second_factor: false, ..new_device }),
            Login::NeedsSecondFactor
        );
        service.clock.advance(HOUR);
    }
}

/// A device name that a client made up would be a fresh counter. The service sends only names that it has signed, so a
/// stolen device is limited like any other.
#[test]
fn guesses_on_a_stolen_device() {
    let service = LoginService::new();
    let stolen = Attempt { device: Some("phone"), ..GUESS };
    assert_eq!(attack(&service, &[stolen; 1000]), 10);
    assert_eq!(service.log_in(OWNER), Login::Succeeded);
}
