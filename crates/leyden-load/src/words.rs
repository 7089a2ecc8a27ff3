//! Prompts of plain words: different in every request, so that a server's prefix cache does not hide work.

use crate::random::Random;

/// Frequent English words of one to three syllables, most of which are one token in most tokenizers.
const WORDS: &[&str] = &[
    "able", "about", "above", "across", "after", "again", "age", "air", "all", "almost", "along", "always",
    "among", "animal", "answer", "apple", "area", "arm", "around", "ask", "autumn", "away", "back", "ball",
    "bank", "base", "bear", "bed", "before", "begin", "behind", "below", "best", "better", "between", "big",
    "bird", "black", "blue", "boat", "body", "book", "both", "box", "boy", "bread", "bring", "brother",
    "brown", "build", "busy", "call", "car", "care", "carry", "cat", "catch", "cause", "center", "chair",
    "change", "chief", "child", "city", "class", "clear", "climb", "close", "cloud", "coast", "cold",
    "color", "come", "common", "cook", "cool", "copy", "corn", "count", "country", "course", "cover",
    "cross", "cry", "cup", "cut", "dark", "day", "deep", "desk", "door", "down", "draw", "dream", "dress",
    "drink", "drive", "dry", "each", "ear", "early", "earth", "east", "easy", "eat", "edge", "egg", "eight",
    "end", "enough", "even", "evening", "every", "eye", "face", "fact", "fall", "family", "far", "farm",
    "fast", "father", "field", "fill", "final", "find", "fine", "fire", "first", "fish", "five", "floor",
    "flower", "fly", "follow", "food", "foot", "forest", "form", "four", "free", "fresh", "friend", "front",
    "fruit", "full", "game", "garden", "gave", "girl", "give", "glass", "gold", "good", "grass", "great",
    "green", "ground", "group", "grow", "half", "hand", "happy", "hard", "hat", "head", "hear", "heart",
    "heat", "heavy", "help", "high", "hill", "hold", "home", "horse", "hot", "hour", "house", "hunt", "ice",
    "idea", "inch", "island", "job", "join", "jump", "keep", "key", "kind", "king", "know", "lake", "land",
    "large", "last", "late", "laugh", "lead", "learn", "leave", "left", "letter", "level", "life", "light",
    "line", "list", "listen", "little", "live", "long", "look", "low", "machine", "main", "make", "map",
    "mark", "market", "matter", "measure", "meet", "metal", "middle", "milk", "mind", "minute", "month",
    "moon", "morning", "mother", "mountain", "mouth", "move", "music", "name", "near", "new", "night",
    "nine", "north", "nose", "note", "number", "ocean", "oil", "old", "open", "order", "page", "paint",
    "paper", "part", "party", "pass", "path", "people", "picture", "piece", "place", "plan", "plant", "play",
    "point", "poor", "power", "press", "pull", "push", "question", "quick", "rain", "reach", "read", "ready",
    "red", "rest", "rich", "ride", "right", "ring", "rise", "river", "road", "rock", "room", "round", "rule",
    "run", "salt", "sand", "school", "sea", "second", "seed", "seven", "shape", "ship", "shoe", "shop",
    "short", "side", "silver", "sing", "sister", "sit", "six", "size", "skin", "sky", "sleep", "slow",
    "small", "snow", "soft", "soil", "son", "song", "soon", "sound", "south", "space", "speak", "spring",
    "square", "stand", "star", "stone", "stop", "storm", "story", "street", "strong", "summer", "sun",
    "table", "tail", "talk", "tall", "teach", "team", "ten", "think", "thousand", "three", "tide", "time",
    "today", "top", "town", "train", "travel", "tree", "true", "turn", "two", "under", "up", "valley",
    "voice", "wait", "walk", "wall", "warm", "wash", "watch", "water", "wave", "way", "weather", "week",
    "west", "wheel", "white", "wide", "wild", "wind", "window", "winter", "wish", "wood", "word", "work",
    "world", "write", "year", "yellow", "young",
];

/// Returns `n` words with blanks between them.
pub(crate) fn text(random: &mut Random, n: usize) -> String {
    let mut text = String::with_capacity(n * 6);
    for i in 0..n {
        if i > 0 {
            text.push(' ');
        }
        text.push_str(WORDS[random.below(WORDS.len() as u64) as usize]);
    }
    text
}

/// Returns every word once, as a text, and their number.
pub(crate) fn all() -> (String, usize) {
    (WORDS.join(" "), WORDS.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_have_their_length_and_differ() {
        let make = |stream, n| text(&mut Random::new(1, stream), n);
        assert_eq!((make(1, 0).as_str(), make(1, 50).split(' ').count()), ("", 50));
        assert!(make(1, 50) == make(1, 50) && make(1, 50) != make(2, 50));
        let mut sorted = WORDS.to_vec();
        sorted.dedup();
        assert!(sorted.is_sorted() && sorted.len() == WORDS.len());
    }
}
