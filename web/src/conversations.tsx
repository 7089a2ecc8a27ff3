// The list of conversations: search, rename, export, import, and deletion that can be undone.

import { useEffect, useRef, useState } from "preact/hooks";
import { Dialog } from "./dialogs";
import { matches, type Conversation } from "./store";
import { asJson, asMarkdown, download, fileName, fromJson } from "./transfer";

interface Props {
  all: Conversation[];
  current: string;
  open: boolean;
  fresh: () => void;
  select: (c: Conversation) => void;
  change: (c: Conversation) => void;
  remove: (c: Conversation) => void;
  /** Adds conversations, new or deleted before. */
  add: (list: Conversation[]) => void;
}

/** How long a deletion can be undone, in milliseconds. */
const UNDO = 20_000;

export function Conversations({ all, current, open, fresh, select, change, remove, add }: Props) {
  const [query, setQuery] = useState("");
  const [shown, setShown] = useState<Conversation | null>(null);
  const [deleted, setDeleted] = useState<Conversation | null>(null);
  const [said, setSaid] = useState("");
  const file = useRef<HTMLInputElement>(null);
  const found = all.filter((c) => matches(c, query));

  useEffect(() => {
    if (!deleted) return;
    const timer = setTimeout(() => setDeleted(null), UNDO);
    return () => clearTimeout(timer);
  }, [deleted]);

  const take = async (picked: File) => {
    try {
      const list = fromJson(await picked.text(), all);
      add(list);
      setSaid(list.length ? `${list.length} imported.` : "All of them are here already.");
    } catch (e) {
      setSaid(`${picked.name}: ${(e as Error).message}`);
    }
  };
  const drop = (c: Conversation) => {
    remove(c);
    setDeleted(c);
    setShown(null);
  };
  return (
    <aside class={open ? "open" : ""} aria-label="Conversations">
      <button type="button" class="primary" onClick={fresh}>
        New chat
      </button>
      <input
        type="search"
        aria-label="Search the conversations"
        placeholder="Search"
        value={query}
        onInput={(e) => setQuery(e.currentTarget.value)}
      />
      <ul>
        {found.map((c) => (
          <li key={c.id} class={c.id === current ? "current" : ""}>
            <button type="button" class="plain title" aria-current={c.id === current ? "true" : undefined} onClick={() => select(c)}>
              {c.title}
            </button>
            <button type="button" class="plain" aria-label={`Rename or export ${c.title}`} onClick={() => setShown(c)}>
              ⋯
            </button>
            <button type="button" class="plain" aria-label={`Delete ${c.title}`} onClick={() => drop(c)}>
              ✕
            </button>
          </li>
        ))}
      </ul>
      {query && !found.length && <p class="hint">No conversation has these words.</p>}
      <div role="status">
        {deleted && (
          <p class="hint">
            “{deleted.title}” is deleted.{" "}
            <button
              type="button"
              onClick={() => {
                add([deleted]);
                setDeleted(null);
              }}
            >
              Undo
            </button>
          </p>
        )}
        {said && <p class="hint">{said}</p>}
      </div>
      <div class="row">
        <button type="button" class="plain" disabled={!all.length} onClick={() => download("leyden-chats.json", asJson(all), "application/json")}>
          Export all
        </button>
        <button type="button" class="plain" onClick={() => file.current?.click()}>
          Import
        </button>
        <input
          ref={file}
          type="file"
          class="hidden"
          tabindex={-1}
          accept=".json,application/json"
          aria-label="File with conversations"
          onChange={(e) => {
            const picked = e.currentTarget.files?.[0];
            if (picked) void take(picked);
            e.currentTarget.value = "";
          }}
        />
      </div>
      <p class="hint">Kept in this browser alone.</p>
      {shown && <Details conversation={shown} change={change} close={() => setShown(null)} />}
    </aside>
  );
}

/** Title and export of one conversation. */
function Details(props: { conversation: Conversation; change: (c: Conversation) => void; close: () => void }) {
  const c = props.conversation;
  const [title, setTitle] = useState(c.title);
  return (
    <Dialog title="This chat" close={props.close}>
      <form
        onSubmit={(e) => {
          e.preventDefault();
          if (title.trim() && title.trim() !== c.title) props.change({ ...c, title: title.trim() });
          props.close();
        }}
      >
        <label>
          Title
          <input required maxLength={200} value={title} onInput={(e) => setTitle(e.currentTarget.value)} />
        </label>
        <div class="row">
          <button type="button" onClick={() => download(`${fileName(c.title)}.md`, asMarkdown(c), "text/markdown")}>
            Export as Markdown
          </button>
          <button type="button" onClick={() => download(`${fileName(c.title)}.json`, asJson([c]), "application/json")}>
            Export as JSON
          </button>
          <button type="submit" class="primary">
            Save
          </button>
        </div>
      </form>
    </Dialog>
  );
}
