// Makes what npm gets: the package `fairlock`, and for each library one of its own, which npm installs where it fits.
//
//     node pack.mjs FOLDER PLATFORM=LIBRARY…      as linux-x64-gnu=target/release/libfairlock_node.so
//
// Links of the pages lead into the repository, whose address is in the workspace's Cargo.toml.
import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'

const [folder, ...libraries] = process.argv.slice(2)
const here = import.meta.dirname
const repository = readFileSync(join(here, '../Cargo.toml'), 'utf8').match(/^repository = "(.*)"/m)[1]
const { files, ...main } = JSON.parse(readFileSync(join(here, 'package.json'), 'utf8'))
delete main.devDependencies
const { version, license, engines, author } = main
const LICENCES = ['LICENSE-MIT', 'LICENSE-APACHE']

mkdirSync(folder, { recursive: true })
const scratch = mkdtempSync(join(tmpdir(), 'fairlock-pack-'))

/** Packs these files under these settings. */
function pack(settings, copies) {
  const place = join(scratch, settings.name)
  for (const [to, from] of Object.entries(copies)) {
    cpSync(from, join(place, to), { recursive: true, dereference: true, filter: file => !file.endsWith('.node') || file === from })
  }
  const described = { ...settings, repository: { type: 'git', url: repository } }
  writeFileSync(join(place, 'package.json'), JSON.stringify(described, null, 2))
  execFileSync('npm', ['pack', '--silent', '--pack-destination', resolve(folder)], { cwd: place, stdio: 'inherit' })
}

try {
  const licences = Object.fromEntries(LICENCES.map(name => [name, join(here, name)]))
  const optionalDependencies = {}
  for (const pair of libraries) {
    const [platform, library] = pair.split('=')
    const [os, cpu, libc] = platform.split('-')
    const name = `fairlock-${platform}`
    const place = { os: [os], cpu: [cpu], ...(libc && { libc: [libc === 'gnu' ? 'glibc' : libc] }) }
    writeFileSync(join(scratch, 'README.md'), `The library of fairlock for ${platform}. Install the package fairlock.\n`)
    pack(
      { name, version, license, author, engines, description: `fairlock for ${platform}`, main: 'fairlock.node', ...place },
      { 'fairlock.node': library, 'README.md': join(scratch, 'README.md'), ...licences },
    )
    optionalDependencies[name] = version
  }
  const readme = readFileSync(join(here, 'README.md'), 'utf8')
    .replace(/\]\(\.\.\/([^)]*)\)/g, `](${repository}/blob/main/$1)`)
    .replace(/\]\((?!https?:|#)([^)]*)\)/g, `](${repository}/blob/main/node/$1)`)
  writeFileSync(join(scratch, 'README.md'), readme)
  pack({ ...main, optionalDependencies }, { lib: join(here, 'lib'), 'README.md': join(scratch, 'README.md'), ...licences })
} finally {
  rmSync(scratch, { recursive: true })
}
