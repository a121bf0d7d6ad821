/** Answers of the API about workflows, and how they are read. */
import { queryOptions } from "@tanstack/react-query"
import type { CompiledGraph } from "../../../src/core/index.ts"
import { ask } from "../api/http.ts"
import type { Paused } from "../api/types.ts"
import type { Used } from "../model/format.ts"
import type { Schema } from "../schema-form/schema.ts"

export interface StoredVersion {
  readonly name: string
  readonly version: number
  readonly hash: string
  readonly created_at: string
  readonly pushed_by: string | null
}

export interface WorkflowList {
  readonly workflows: readonly StoredVersion[]
  readonly next: string | null
}

export interface VersionList {
  readonly versions: readonly StoredVersion[]
  readonly next: number | null
}

type Weights = { readonly [version: string]: number }

export interface Alias {
  readonly alias: string
  readonly weights: Weights
  readonly moved_at: string
  readonly moved_by: string
}

export interface Definition {
  readonly name: string
  readonly description?: string | null
  readonly input?: Schema | null
  readonly nodes?: readonly { readonly id: string; readonly [key: string]: unknown }[]
  readonly routes?: readonly { readonly name: string; readonly [key: string]: unknown }[]
}

export interface Workflow extends StoredVersion {
  readonly definition: Definition
  readonly aliases?: readonly Alias[]
  readonly paused?: Paused | null
}

export interface Diff {
  readonly nodes_added: readonly string[]
  readonly nodes_removed: readonly string[]
  readonly nodes_changed: readonly { readonly id: string; readonly keys: readonly string[] }[]
  readonly routes_added: readonly string[]
  readonly routes_removed: readonly string[]
  readonly routes_changed: readonly { readonly name: string; readonly keys: readonly string[] }[]
  readonly keys_changed: readonly string[]
}

interface Percentiles {
  readonly p50: number
  readonly p90: number
  readonly p95: number
  readonly p99: number
}

interface ScopeStatistics {
  readonly count: number
  readonly failed: number
  readonly failure_rate: number | null
  readonly duration_ms: Percentiles | null
  readonly attempts: number
  readonly errors: readonly { readonly code: string; readonly count: number }[]
  readonly usage: { readonly [name: string]: Used & { readonly p99: number | null } } | null
}

export interface NodeStatistics extends ScopeStatistics {
  readonly node: string
}

export interface Statistics {
  readonly version: number | null
  readonly from: string
  readonly jobs: ScopeStatistics
  readonly nodes: readonly NodeStatistics[]
  readonly critical_path: readonly { readonly node: string; readonly duration_ms: number | null }[]
}

export function workflowPath(name: string): string {
  return `/workflows/${encodeURIComponent(name)}`
}

export function workflowQuery(name: string) {
  return queryOptions({
    queryKey: ["workflow", name],
    queryFn: ({ signal }) => ask<Workflow>(workflowPath(name), { signal }),
  })
}

export function versionsQuery(name: string) {
  return queryOptions({
    queryKey: ["workflow", name, "versions"],
    queryFn: ({ signal }) =>
      ask<VersionList>(`${workflowPath(name)}/versions`, { query: { limit: 50 }, signal }),
  })
}

/** A version never changes. */
export function versionQuery(name: string, version: number) {
  return queryOptions({
    queryKey: ["version", name, version],
    queryFn: ({ signal }) => ask<Workflow>(`${workflowPath(name)}/versions/${version}`, { signal }),
    staleTime: Number.POSITIVE_INFINITY,
  })
}

export function graphQuery(name: string, version: number) {
  return queryOptions({
    queryKey: ["version", name, version, "graph"],
    queryFn: ({ signal }) =>
      ask<CompiledGraph>(`${workflowPath(name)}/versions/${version}/graph`, { signal }),
    staleTime: Number.POSITIVE_INFINITY,
  })
}

const HOUR_MS = 3_600_000

export function statisticsQuery(name: string, version: number | null, hours: number) {
  return queryOptions({
    queryKey: ["workflow", name, "statistics", version, hours],
    queryFn: ({ signal }) =>
      ask<Statistics>(`${workflowPath(name)}/stats`, {
        query: { version, from: new Date(Date.now() - hours * HOUR_MS).toISOString() },
        signal,
      }),
  })
}
