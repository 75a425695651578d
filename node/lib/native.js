'use strict'

// The Rust library, as a package of its own for each platform: npm installs the one that fits, and nothing is fetched or
// built later. In a clone it is the build of `make test-package-node`.
const { existsSync } = require('node:fs')
const { join } = require('node:path')

/** Whether this is a Linux with musl, such as Alpine. */
const isMusl = () => process.platform === 'linux' && !process.report.getReport().header.glibcVersionRuntime

const platform = [process.platform, process.arch, ...(process.platform === 'linux' ? [isMusl() ? 'musl' : 'gnu'] : [])].join('-')

function load() {
  const built = join(__dirname, 'fairlock.node')
  if (existsSync(built)) return require(built)
  try {
    return require(`fairlock-${platform}`)
  } catch (cause) {
    const message =
      `fairlock has no library for ${platform}: the package fairlock-${platform} is not installed. It is an optional ` +
      'dependency of fairlock, so install without --omit=optional, and on the platform on which the program runs'
    throw new Error(message, { cause })
  }
}

module.exports = load()
