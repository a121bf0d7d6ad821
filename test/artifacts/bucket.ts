/** A bucket of its own for a test, on the S3 server that `npm test` started. */
import { randomBytes } from "node:crypto"
import { S3Client } from "../../src/artifacts/s3/client.ts"
import { readLocation } from "../../src/artifacts/s3/location.ts"
import { S3Store, type S3StoreOptions } from "../../src/artifacts/s3/store.ts"
import { elements } from "../../src/artifacts/s3/xml.ts"
import type { Environment } from "../../src/settings.ts"
import { s3Url } from "../support/services.ts"

const PREFIX = "of/umbra"

export interface Bucket {
  /** For UMBRA_ARTIFACTS. */
  readonly location: string
  readonly environment: Environment
  /** Through another address, for example of a proxy. */
  store(options?: S3StoreOptions & { readonly endpoint?: string }): S3Store
  /** All that a list of the bucket shows, with the prefix. */
  keys(): Promise<string[]>
  /** Uploads in parts that were neither completed nor aborted. */
  uploads(): Promise<string[]>
  remove(): Promise<void>
}

export async function freshBucket(): Promise<Bucket> {
  const name = `test-${randomBytes(8).toString("hex")}`
  const { username, password, host } = new URL(s3Url())
  const environment = {
    AWS_ACCESS_KEY_ID: decodeURIComponent(username),
    AWS_SECRET_ACCESS_KEY: decodeURIComponent(password),
    AWS_ENDPOINT_URL_S3: `http://${host}`,
  }
  const bucket = new S3Client(readLocation(`s3://${name}`, environment))
  await bucket.send({ method: "PUT" })
  const location = `s3://${name}/${PREFIX}`
  const keys = async () => {
    const { text } = await bucket.send({ method: "GET", query: { "list-type": "2" } })
    return elements(text, "Key")
  }
  return {
    location,
    environment,
    store: ({ endpoint, ...options } = {}) =>
      new S3Store(
        readLocation(location, endpoint ? { ...environment, AWS_ENDPOINT_URL_S3: endpoint } : environment),
        { pauseMs: 5, ...options },
      ),
    keys,
    uploads: async () => (await bucket.uploads()).map(({ key }) => key),
    async remove() {
      for (const { key, uploadId } of await bucket.uploads())
        await bucket.send({ method: "DELETE", key, query: { uploadId } })
      for (let left = await keys(); left.length > 0; left = await keys())
        for (const key of left) await bucket.send({ method: "DELETE", key })
      await bucket.send({ method: "DELETE" })
      bucket.close()
    },
  }
}
