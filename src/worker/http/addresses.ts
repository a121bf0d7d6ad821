/**
 * Decides which addresses a handler may connect to. Every address that is not public unicast is rejected
 * unless the operator allows it: a workflow is data that others may write, and neighbours of this machine
 * trust this machine. Addresses are checked as bytes, after name resolution, so no notation and no name
 * server can disguise one.
 */

import { lookup } from "node:dns"
import { BlockList, isIP, type LookupFunction } from "node:net"
import { UmbraError } from "../../errors.ts"
import { finalError, type HandlerError } from "../fail.ts"

const refusedIPv4 = [
  "0.0.0.0/8",
  "10.0.0.0/8",
  "100.64.0.0/10",
  "127.0.0.0/8",
  "169.254.0.0/16",
  "172.16.0.0/12",
  "192.0.0.0/24",
  "192.0.2.0/24",
  "192.88.99.0/24",
  "192.168.0.0/16",
  "198.18.0.0/15",
  "198.51.100.0/24",
  "203.0.113.0/24",
  "224.0.0.0/4",
  "240.0.0.0/4",
]

/**
 * 2000::/3 is all of public IPv6; within it, the ranges for documentation, tunnels and benchmarks are
 * rejected too.
 */
const publicIPv6 = "2000::/3"
const refusedIPv6 = ["2001::/23", "2001:db8::/32", "3fff::/20"]

export class AddressPolicy {
  readonly #allowed: BlockList | boolean

  constructor(allowed: boolean | readonly string[]) {
    this.#allowed = typeof allowed === "boolean" ? allowed : createBlockList(allowed)
  }

  allows(address: string): boolean {
    const plain = address.replace(/%.*$/, "")
    const inner = innerIPv4(plain)
    return this.#allowed === true || isPublic(inner ?? plain) || this.#isListed(inner ?? plain)
  }

  #isListed(address: string): boolean {
    return typeof this.#allowed !== "boolean" && isIn(this.#allowed, address)
  }
}

const refused4 = createBlockList(refusedIPv4)
const public6 = createBlockList([publicIPv6])
const refused6 = createBlockList(refusedIPv6)

function isPublic(address: string): boolean {
  if (isIP(address) === 4) return !isIn(refused4, address)
  return isIP(address) === 6 && isIn(public6, address) && !isIn(refused6, address)
}

function isIn(list: BlockList, address: string): boolean {
  const version = isIP(address)
  return version !== 0 && list.check(address, version === 4 ? "ipv4" : "ipv6")
}

function createBlockList(ranges: readonly string[]): BlockList {
  const list = new BlockList()
  for (const range of ranges) {
    const [address = "", bits] = range.split("/")
    const version = isIP(address)
    const most = version === 4 ? 32 : 128
    const prefix = bits === undefined ? most : Number(bits)
    if (version === 0 || !Number.isInteger(prefix) || prefix < 0 || prefix > most || bits === "") {
      throw new UmbraError(
        "E620",
        `allowPrivateAddresses (UMBRA_ALLOW_PRIVATE_ADDRESSES) accepts 1, 0, or addresses and ranges such as ` +
          `127.0.0.1,10.2.0.0/16; "${range}" is neither.`,
      )
    }
    list.addSubnet(address, prefix, version === 4 ? "ipv4" : "ipv6")
  }
  return list
}

/**
 * The IPv4 address that an IPv6 address stands for: mapped (::ffff:0:0/96), NAT64 (64:ff9b::/96), 6to4
 * (2002::/16).
 */
function innerIPv4(address: string): string | undefined {
  if (isIP(address) !== 6) return undefined
  const groups = expandGroups(address)
  const start = groups.slice(0, 6).join(":")
  if (start === "0:0:0:0:0:ffff" || start === "64:ff9b:0:0:0:0") return dotted(groups[6]!, groups[7]!)
  return groups[0] === "2002" ? dotted(groups[1]!, groups[2]!) : undefined
}

function dotted(high: string, low: string): string {
  const [a, b] = [Number.parseInt(high, 16), Number.parseInt(low, 16)]
  return [a >> 8, a & 255, b >> 8, b & 255].join(".")
}

/** Eight groups in lower case without leading zeros; the URL parser accepts every notation. */
function expandGroups(address: string): string[] {
  const short = new URL(`http://[${address}]/`).hostname.slice(1, -1)
  const [left = "", right] = short.split("::")
  const before = left === "" ? [] : left.split(":")
  if (right === undefined) return before
  const after = right === "" ? [] : right.split(":")
  return [...before, ...Array<string>(8 - before.length - after.length).fill("0"), ...after]
}

/**
 * Name resolution under the address policy. The connection is made to the very address that was checked: a
 * second lookup could return another one (DNS rebinding). `resolve` resolves names to addresses: a parameter
 * for tests.
 */
export function guardedLookup(policy: AddressPolicy, resolve: typeof lookup = lookup): LookupFunction {
  return (hostname, options, callback) => {
    resolve(hostname, { ...options, all: true }, (error, found) => {
      if (error !== null) {
        callback(error, "", 0)
        return
      }
      const allowed = found.filter(({ address }) => policy.allows(address))
      const [first] = allowed
      if (first === undefined) callback(addressRefused(hostname, found[0]?.address), "", 0)
      else if (options.all) callback(null, allowed)
      else callback(null, first.address, first.family)
    })
  }
}

/** Addresses in the URL itself are not looked up. The URL parser has normalized their notation. */
export function checkHost(url: URL, policy: AddressPolicy): void {
  const host = url.hostname.replace(/^\[|\]$/g, "")
  if (isIP(host) !== 0 && !policy.allows(host)) throw addressRefused(host, host)
}

function addressRefused(host: string, address: string | undefined): HandlerError {
  const what = address === undefined || address === host ? host : `${host} (${address})`
  return finalError(
    "E412",
    `${what} is not a public address, and this worker may not connect to it. To allow it, the operator sets ` +
      "UMBRA_ALLOW_PRIVATE_ADDRESSES=1 (or to the addresses that are allowed).",
  )
}
