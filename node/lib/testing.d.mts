export * from './testing.js'
