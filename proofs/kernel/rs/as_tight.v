(* rs.as_tight: Zhu and Blaschko, Improving Differentially Private SGD via Randomly Sparsified Gradients (RS), the version with Lemma 3.3: section 4, text after eq. 15.
   At r = 0 the bound of Theorem 3.5 "recovers the convergence bound of vanilla DP-SGD, implying that our convergence bound over RS is as tight as before". *)
From kernel Require Import definitions lemmas.

(* Both bounds put C^2 for the second moment of a clipped gradient. As tight as before: where that is exact without a mask, it is exact with one. *)
Definition printed : Prop := forall d k C (p : law vec), (0 < k <= d)%nat -> 0 < C -> lawful p -> in_space d p ->
  E p (fun g => square (clip C g)) = C ^ 2 ->
  avg (masks d k) (fun m => E p (fun g => square (clip C (mask m g)))) = C ^ 2.
Definition correction : Prop := forall d k C (p : law vec), (0 < k <= d)%nat -> 0 < C -> lawful p -> in_space d p ->
  E p (fun g => square (clip C g)) = C ^ 2 ->
  share d k * C ^ 2 <= avg (masks d k) (fun m => E p (fun g => square (clip C (mask m g)))) <= C ^ 2.
