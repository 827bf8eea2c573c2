(* rf.cor1.1: Differentially private SGD with sparse gradients (RF), anonymous submission under double-blind review: Appendix B, Corollary 1.1 (eq. 32); RS, Corollary A.2.
   "Following the notation of lemma 1", E<m (.) u, m (.) v> = (1 - r) E<u, v>.
   Doubt: RS's lemma states no independence. *)
From kernel Require Import definitions lemmas.

From kernel Require Import rf.lem1.
Definition printed : Prop := forall d K p, (0 < K <= d)%nat -> in_dimension d p -> independent d K p ->
  E p (fun o => dot (mask (fst o) (fst (snd o))) (mask (fst o) (snd (snd o)))) = share d K * E p (fun o => dot (fst (snd o)) (snd (snd o))).
(* another reading: uniform, and independent of u and of v one by one *)
Definition reading : Prop := forall d K p, (0 < K <= d)%nat -> in_dimension d p -> one_by_one d K p ->
  E p (fun o => dot (mask (fst o) (fst (snd o))) (mask (fst o) (snd (snd o)))) = share d K * E p (fun o => dot (fst (snd o)) (snd (snd o))).

Theorem printed_holds : printed.
Proof.
  intros d K p Kd D ind. rewrite <- (rf.lem1.printed_holds d K 1%nat p Kd (Nat.le_refl _) D ind). apply E_ext. intro o.
  rewrite power_mask_is by lia. apply dot_mask.
Qed.
(* the law of rf.lem1: 1/2 and 0 *)
Theorem reading_is_false : ~ reading.
Proof.
  intro claim. destruct satisfiable as [a b]. specialize (claim 2%nat 1%nat tied ltac:(lia) a b).
  unfold E, tied, share, dot in claim. simpl in claim. lra.
Qed.
