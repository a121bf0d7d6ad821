/** Signature version 4, by `aws4fetch`, over all headers that are given. */
import { AwsV4Signer } from "aws4fetch"
import type { S3Location } from "./location.ts"

export interface Signable {
  readonly method: string
  readonly key?: string
  readonly query?: Readonly<Record<string, string>>
  readonly headers?: Readonly<Record<string, string>>
}

export interface SignOptions {
  /** A URL that is valid for a limited time, instead of headers. */
  readonly inQuery?: boolean
  /** Keys that were derived for a day and region. */
  readonly derived?: Map<string, ArrayBuffer>
  readonly now?: Date
}

export async function sign(
  { url, prefix, region, credentials }: Pick<S3Location, "url" | "prefix" | "region" | "credentials">,
  { method, key, query = {}, headers = {} }: Signable,
  { inQuery = false, derived = new Map(), now = new Date() }: SignOptions = {},
): Promise<{ readonly url: URL; readonly headers: Readonly<Record<string, string>> }> {
  const { accessKeyId, secretAccessKey, sessionToken } = credentials
  const target = new URL(key === undefined ? url : `${url}/${encoded(`${prefix}${key}`)}`)
  for (const [name, value] of Object.entries(query)) target.searchParams.set(name, value)
  const signed = await new AwsV4Signer({
    ...{ method, url: target.href, headers, accessKeyId, secretAccessKey },
    ...(sessionToken === undefined ? {} : { sessionToken }),
    ...{ service: "s3", region, cache: derived, allHeaders: true, signQuery: inQuery },
    datetime: now.toISOString().replace(/[:-]|\.\d{3}/g, ""),
  }).sign()
  return { url: signed.url, headers: Object.fromEntries(signed.headers) }
}

const encoded = (key: string): string => key.split("/").map(encodeURIComponent).join("/")
