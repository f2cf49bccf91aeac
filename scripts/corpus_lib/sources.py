"""What each store and result was made from, so that a replaced file is noticed, an older one too.

OUT/sources.json: {slide: row}. A row has

  files   the slide's files when the store was made, as state_of() gives them
  store   [bytes, mtime in ns] of that store
  next    the slide's files when a conversion began that has not been settled yet
  result  [bytes, mtime in ns] of the result, and of the store that it was made from

Any difference, in size or time, makes a file out of date. What has no row, as in corpora of earlier
versions, counts while it is not older than what it was made from.
"""
import hashlib
import json
import os

from corpus_lib.files import fresh, read_json, stamp, stem, write_whole


class Sources:
    def __init__(self, path):
        self.path, self.rows, self.folders = path, read_json(path, {}), {}

    def save(self):
        write_whole(self.path, json.dumps(self.rows, indent=0) + "\n")

    def state_of(self, slide):
        """[bytes, mtime in ns] of a slide; of one that has several files also their hash. None: it
        does not exist."""
        at, end = stamp(slide), os.path.splitext(slide)[1].lower()
        if at is None or end not in (".dcm", ".mrxs", ".vms", ".vmu"):
            return at
        folder = os.path.dirname(slide)
        if end == ".dcm":  # of all series of the folder: if another one changes, wsi2h5 skips this one
            return at + [self.hash_of(folder, "", ".dcm")]
        if end == ".mrxs":
            return at + [self.hash_of(os.path.join(folder, stem(slide)), "", "")]
        return at + [self.hash_of(folder, stem(slide), "")]

    def hash_of(self, folder, begin, end):
        """A hash of names, sizes and times of the files of a folder."""
        if (folder, begin, end) not in self.folders:
            rows = []
            try:
                for e in os.scandir(folder):
                    if e.name.startswith(begin) and e.name.lower().endswith(end) and e.is_file():
                        rows.append((os.fsencode(e.name), e.stat().st_size, e.stat().st_mtime_ns))
            except OSError:
                pass
            self.folders[folder, begin, end] = hashlib.sha256(repr(sorted(rows)).encode()).hexdigest()
        return self.folders[folder, begin, end]

    # stores

    def store_is_current(self, slide, store):
        at, row = stamp(store), self.rows.get(slide, {})
        files = row.get("files") if row.get("store") == at else row.get("next")
        if at is None or not files:
            return fresh(store, slide)
        return self.state_of(slide) in (files, None)  # the slide need not exist any more

    def begin(self, slides):
        """Notes the files of {slide: store} before they are converted."""
        for slide, store in slides.items():
            row = self.rows.setdefault(slide, {})
            if row.get("store") != stamp(store):
                row.update(store=stamp(store), files=None)
            row["next"] = self.state_of(slide)
        self.save()

    def settle(self, slides, confirmed=()):
        """Notes what the stores of {slide: store} were made from. `confirmed`: slides whose store
        wsi2h5 found to be up to date."""
        for slide, store in slides.items():
            at, row = stamp(store), self.rows.setdefault(slide, {})
            made = row.get("store") != at or slide in confirmed
            if at is None or not made:
                continue
            files = row.pop("next", None)
            if files is None and fresh(store, slide):
                files = self.state_of(slide)
            row.update(store=at, files=files)
        self.save()

    # results

    def result_is_current(self, slide, store, result):
        row, at = self.rows.get(slide, {}).get("result"), stamp(result)
        if not row or at is None or row[0] != at:
            return fresh(result, store)
        return stamp(store) in (row[1], None)

    def note_results(self, slides, confirmed=()):
        """Notes what the results of {slide: (store, result)} were made from. `confirmed`: slides whose
        result h5spec found to be up to date."""
        for slide, (store, result) in slides.items():
            if stamp(result) and (slide in confirmed or self.result_is_current(slide, store, result)):
                self.rows.setdefault(slide, {})["result"] = [stamp(result), stamp(store)]
        self.save()
