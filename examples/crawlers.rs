//! Crawlers on several machines that load at most eight pages of one site at the same time.
//!
//! When you would want it: something outside bears only so much (a site, an interface with a key, a database of a
//! tenant), and the workers who use it run on several machines. Each site is a semaphore of its own, so pages of a slow
//! site wait for each other, in the order in which they came, and for no other site's.
//!
//! It bounds how many load at once, and not how many in a second.
//!
//! `cargo run --example crawlers`, as often as you like at the same time.

use std::time::Duration;

use fairlock::Client;
use futures_util::future::try_join_all;

/// All crawlers say the same. If two versions of the program say 8 and 4, no more than 4 load while one of the latter
/// does.
const AT_ONCE: u32 = 8;

pub(crate) struct Page {
    pub(crate) site: &'static str,
    pub(crate) number: u32,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDIS_URL").unwrap_or("redis://127.0.0.1/".into());
    let client = Client::connect(&url).await?;
    let pages = |site, count| (1..=count).map(move |number| Page { site, number });
    let load = async |page: &Page| {
        println!("loads {}/{}", page.site, page.number);
        tokio::time::sleep(Duration::from_millis(200)).await;
    };
    let loaded = crawl(&client, pages("slow.example", 30).chain(pages("fast.example", 5)).collect(), load).await?;
    println!("loaded {loaded} pages");
    Ok(())
}

/// Loads all pages, and returns how many.
pub(crate) async fn crawl(
    client: &Client,
    pages: Vec<Page>,
    load: impl AsyncFn(&Page),
) -> Result<usize, Box<dyn std::error::Error>> {
    let loaded = try_join_all(pages.iter().map(|page| load_one(client, page, &load))).await?;
    Ok(loaded.len())
}

async fn load_one(client: &Client, page: &Page, load: &impl AsyncFn(&Page)) -> Result<(), Box<dyn std::error::Error>> {
    let site = client.semaphore(&format!("crawl:{}", page.site), AT_ONCE)?;
    // The place of a crawler that died is free when its lease ends. One that was cut off and has lost its lease stops,
    // since another one may load in its place.
    site.acquire().label(page.number.to_string()).run(|_held| load(page)).await?;
    Ok(())
}
