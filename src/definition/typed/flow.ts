/** The argument of a builder function: it adds nodes and reads the job's input. */
import { UmbraError } from "../../errors.ts"
import type { HandlerSpec } from "../handler.ts"
import type { NodeDefinition } from "../shape/schema.ts"
import type { Workflow } from "./builder.ts"
import type { Place } from "./emit.ts"
import { expression, nodePath } from "./expression.ts"
import { JobRefs } from "./job-refs.ts"
import {
  AddedNode,
  type AnyNode,
  checkId,
  type EachOptions,
  type NodeContent,
  type NodeHandle,
  type NodeOptions,
  nodeDefinition,
  type RunEachOptions,
  type RunOptions,
} from "./node.ts"
import { useOnce } from "./once.ts"
import { refTo } from "./ref.ts"
import type {
  ConfigOf,
  IsOptional,
  Known,
  OutputOf,
  Ref,
  RefOf,
  Resolved,
  Skippable,
  Templated,
  TemplatedJson,
} from "./types.ts"

type NodeArguments<Config, Options> =
  IsOptional<Config> extends true
    ? [config?: Templated<Config>, options?: Options]
    : [config: Templated<Config>, options?: Options]

type WithWhen<Output, Options> = Options extends { readonly when: unknown } ? Skippable<Output> : Output

/** The result of a builder. A function outside the class, so that users of the builder do not see it. */
export let contentOf: (flow: AnyFlow) => {
  readonly nodes: NodeDefinition[]
  readonly handlers: readonly HandlerSpec[]
  readonly workflows: readonly Workflow[]
  /** The path of a value, and the builders whose refs may occur in it. */
  readonly place: (path: string) => Place
}

const transform: HandlerSpec = { name: "transform" }
/** The handler of a child job, which is also the key of its config. */
const handlerOf = ({ definition }: Workflow) => ("routes" in definition ? "pipeline" : "workflow")

/** Any builder, whatever its job's input: for functions that add nodes to several workflows. */
export class AnyFlow extends JobRefs {
  readonly #name: string
  readonly #nodes = new Map<string, NodeDefinition>()
  readonly #added = new Set<AnyNode>()
  readonly #handlers = new Map<string, HandlerSpec>()
  readonly #workflows = new Map<string, Workflow>()

  static {
    contentOf = flow => ({
      nodes: [...flow.#nodes.values()],
      handlers: [...flow.#handlers.values()],
      workflows: [...flow.#workflows.values()],
      place: path => flow.#place(path),
    })
  }

  constructor(name: string) {
    super()
    this.#name = name
  }

  /** Adds a node. Nodes whose output the config or `when` reads become dependencies automatically. */
  node<H extends HandlerSpec, const Options extends NodeOptions = NodeOptions>(
    id: string,
    handler: H,
    ...[config, options]: NodeArguments<ConfigOf<H>, Options>
  ): NodeHandle<WithWhen<OutputOf<H>, Options>> {
    this.#use(handler)
    return this.#add({ id, handler: handler.name, config, options: options ?? {} })
  }

  /** Adds a `transform` node: computes a value that several nodes can read. */
  transform<const Value extends TemplatedJson, const Options extends NodeOptions = NodeOptions>(
    id: string,
    value: Value,
    options?: Options,
  ): NodeHandle<WithWhen<Resolved<Value>, Options>> {
    return this.#add({ id, handler: transform.name, config: { value }, options: options ?? {} })
  }

  /** Adds a node that runs once per item of a list; its output is the list of their outputs. */
  each<H extends HandlerSpec, Item, const Options extends EachOptions = EachOptions>(
    id: string,
    handler: H,
    items: RefOf<readonly Item[]> | readonly Item[],
    config: (item: Ref<Item>, index: Ref<number>) => Templated<ConfigOf<H>>,
    options?: Options,
  ): NodeHandle<WithWhen<OutputOf<H>[], Options>> {
    this.#use(handler)
    return this.#addEach({ id, handler: handler.name, items, config, options })
  }

  /** Adds a node that runs another workflow, or a pipeline, as a child job; its output is that job's. */
  run<Input, Output, const Options extends RunOptions = RunOptions>(
    id: string,
    child: Workflow<Input, Output>,
    input?: Templated<Input>,
    options?: Options,
  ): NodeHandle<WithWhen<Known<Output>, Options>> {
    const config = this.#childConfig(child, input, options)
    return this.#add({ id, handler: handlerOf(child), config, options: options ?? {} })
  }

  /** Adds a node that runs another workflow once per item of a list, each as a child job. */
  runEach<Input, Output, Item, const Options extends RunEachOptions = RunEachOptions>(
    id: string,
    child: Workflow<Input, Output>,
    items: RefOf<readonly Item[]> | readonly Item[],
    input: (item: Ref<Item>, index: Ref<number>) => Templated<Input>,
    options?: Options,
  ): NodeHandle<WithWhen<Known<Output>[], Options>> {
    const config = (item: Ref<Item>, index: Ref<number>) =>
      this.#childConfig(child, input(item, index), options)
    return this.#addEach({ id, handler: handlerOf(child), items, config, options })
  }

  #addEach<Item, Output>(each: {
    id: string
    handler: string
    items: RefOf<readonly Item[]> | readonly Item[]
    config: (item: Ref<Item>, index: Ref<number>) => unknown
    options: EachOptions | undefined
  }): NodeHandle<Output> {
    // An origin of its own: `item` is invalid in any other node.
    const origins: ReadonlySet<object> = new Set([{}])
    const item = refTo<Item>(expression("item", origins, true))
    const index = refTo<number>(expression("index", origins, true))
    const { id, handler, items, options } = each
    const config = each.config(item, index)
    return this.#add({ id, handler, config, options: options ?? {}, forEach: items }, origins)
  }

  #childConfig(child: Workflow, input: unknown, options: RunOptions | undefined): TemplatedJson {
    const known = this.#workflows.get(child.name)
    if (known !== undefined && known !== child)
      throw new UmbraError(
        "E104",
        `workflow ${JSON.stringify(this.#name)} runs two different workflows called ${JSON.stringify(child.name)}. ` +
          "Rename one of them.",
      )
    this.#workflows.set(child.name, child)
    const reference = options?.at === undefined ? child.name : `${child.name}@${options.at}`
    return {
      [handlerOf(child)]: reference,
      ...(input === undefined ? {} : { input: input as TemplatedJson }),
    }
  }

  #place(path: string, more: Iterable<object> = []): Place {
    return { path, origins: new Set([...this.origins, ...more]) }
  }

  #add<Output>(content: NodeContent, origins?: Iterable<object>): NodeHandle<Output> {
    const { id } = content
    checkId(id, this.#nodes.has(id))
    this.#nodes.set(id, nodeDefinition(content, this.#place(`nodes.${id}`, origins), this.#added))
    const handle = new AddedNode<Output>(id, refTo(expression(nodePath(id), this.origins, true)))
    this.#added.add(handle)
    return handle
  }

  #use(handler: HandlerSpec): void {
    const owner = `workflow ${JSON.stringify(this.#name)}`
    useOnce(this.#handlers, { name: handler.name, thing: handler, what: "handler", owner })
  }
}

export class Flow<Input> extends AnyFlow {
  /** The job's input, with defaults filled in. */
  readonly input: Ref<Known<Input>> = refTo(expression("input", this.origins, true))
}
